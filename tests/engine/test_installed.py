"""What is published passes the tests: the wheel and the sdist, installed where no checkout can be imported.

The tests are those of the sdist, in a directory without the packages: what they import is installed.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2]
PACKAGES = ("grants_cli", "machine_setup", "plugin", "spec")


@dataclass(frozen=True)
class Installed:
    """One form of the project, in a virtual environment of its own."""

    archive: Path
    environment: Path
    tests: Path

    @property
    def site(self) -> Path:
        """Where its packages are."""
        (site,) = self.environment.glob("lib/python3.*/site-packages")
        return site

    def run(self, *command: str) -> str:
        """What a command of this environment prints; it has to succeed."""
        return run(str(self.environment / "bin" / command[0]), *command[1:], cwd=self.tests)

    def files(self) -> dict[str, bytes]:
        """The packages' files by their names."""
        found = (path for name in PACKAGES for path in (self.site / name).rglob("*") if path.is_file())
        kept = (path for path in found if path.suffix != ".pyc")
        return {str(path.relative_to(self.site)): path.read_bytes() for path in kept}


def run(*command: str, cwd: Path) -> str:
    # Of a checkout that this environment may name nothing is to be seen there.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env={**environment, "PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-8000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A short path: that of a unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gate-installed-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def published(directory: Path) -> Path:
    """Where the wheel and the sdist of this checkout are."""
    target = directory / "dist"
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(target), cwd=SOURCE)
    return target


@pytest.fixture(scope="module")
def tests(directory: Path, published: Path) -> Path:
    """What the sdist has beside the packages."""
    (sdist,) = published.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(directory / "sdist", filter="data")
    (tree,) = (directory / "sdist").iterdir()
    for name in PACKAGES:
        shutil.rmtree(tree / name)
    return tree


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def installed(request: pytest.FixtureRequest, directory: Path, published: Path, tests: Path) -> Installed:
    """One of the two, installed with what it says it needs and nothing else."""
    (archive,) = published.glob(request.param)
    environment = directory / f"of{archive.suffix}"
    run(sys.executable, "-m", "venv", str(environment), cwd=directory)
    form = Installed(archive, environment, tests)
    form.run("python", "-m", "pip", "install", "--quiet", str(archive))
    return form


@pytest.mark.slow
def test_its_commands_start_with_what_it_needs(installed: Installed) -> None:
    for name in ("renet", "rdc"):
        assert "version" in installed.run(name, "--version")
        assert "Commands:" in installed.run(name, "--help")


@pytest.mark.slow
def test_it_has_every_file(installed: Installed) -> None:
    expected = {}
    for name, place in [*zip(PACKAGES, PACKAGES, strict=True), ("deploy", "machine_setup/deploy")]:
        for path in (SOURCE / name).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                expected[f"{place}/{path.relative_to(SOURCE / name)}"] = path.read_bytes()
    assert installed.files() == expected


@pytest.mark.slow
def test_it_passes_the_tests(installed: Installed) -> None:
    installed.run("python", "-m", "pip", "install", "--quiet", f"{installed.archive}[dev]")
    shown = installed.run("python", "-c", "import spec; print(spec.__file__)")
    assert Path(shown.strip()).is_relative_to(installed.site)
    # dockerd waits long for a gate that is gone, whoever has installed that.
    main_job = ("tests/engine/test_main_job.py", "-k", "not without_the_gate")
    installed.run("python", "-m", "pytest", "-q", "--exitfirst", *main_job)
    # Both forms have the same files, as the test above says: once through all unit tests is enough.
    if installed.archive.suffix == ".whl":
        installed.run("python", "-m", "pytest", "-q", "--exitfirst", "-m", "not slow", "tests/unit")

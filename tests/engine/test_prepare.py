"""Where the tests and the demonstration can't go on, they say in one sentence what is missing."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.obtain import obtain
from tests.engine.refusal import Refusal
from tests.engine.unpack import unpack

SOURCE = Path(__file__).parents[2]


@pytest.fixture
def checkout() -> Iterator[Path]:
    """The scripts, where a user without privileges can read them."""
    with tempfile.TemporaryDirectory(prefix="gate-checkout-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        shutil.copytree(SOURCE / "scripts", directory / "scripts")
        yield directory


def as_nobody(checkout: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", command],
        check=False,
        cwd=checkout,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("script", ["test", "test --all", "demo"])
def test_without_root_a_script_names_the_command_that_works(checkout: Path, script: str) -> None:
    done = as_nobody(checkout, f"scripts/{script}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"sudo scripts/{script.split(maxsplit=1)[0]}" in done.stderr


def test_without_root_missing_packages_are_named(checkout: Path) -> None:
    command = ". scripts/prepare.sh; prepare_packages sh:dash no-such-program:such-package"
    done = as_nobody(checkout, command)
    assert (done.returncode, done.stderr) == (
        1,
        "bash: missing: such-package. As root: apt-get install such-package\n",
    )


@pytest.mark.parametrize("script", ["test", "demo"])
def test_help_is_to_be_had_by_anybody(checkout: Path, script: str) -> None:
    done = as_nobody(checkout, f"scripts/{script} --help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: scripts/{script}")


def test_a_mirror_that_does_not_answer_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Refusal, match=r"\Athe test engine could not be fetched: apt-get [^\n]*\Z"):
        unpack("broken", "deb [trusted=yes] file:///nonexistent sid main\n", lambda _: None)
    assert [path.name for path in (tmp_path / "rediacc-gpu-gate").iterdir()] == ["engine-broken.lock"]


def test_a_machine_without_runc_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = obtain()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dockerd").symlink_to(engine.program("dockerd"))
    bare = type(engine)(engine.name, engine.version, str(programs), engine.docker_config)
    assert os.access(bare.program("dockerd"), os.X_OK)
    with pytest.raises(Refusal, match=r"\Arunc is not installed: apt-get install runc\Z"):
        bare.program("runc")

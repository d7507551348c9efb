"""Machines with a real sshd. They need root, and fail without it: they are never skipped."""

import itertools
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.engine.obtain import obtain
from tests.remote.machine import Machine, Operator, machine, operator, python, save_image

ROOT = Path(__file__).resolve().parents[2]
NewMachine = Callable[..., Machine]


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A short directory that other users may enter: sshd hands over to them."""
    with TemporaryDirectory(prefix="rdc") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture(scope="session")
def wheelhouse(place: Path) -> Path:
    """The wheels that `renet` depends on, for the Python of the machines."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    directory = place / "wheelhouse"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python())]
    subprocess.run(
        [*pip, "wheel", "--wheel-dir", directory, *project["dependencies"]],
        check=True,
        stderr=subprocess.PIPE,
    )
    return directory


@pytest.fixture(scope="session")
def image(place: Path, wheelhouse: Path) -> Path:
    """A machine that ``rdc machine setup`` has set up from nothing, to start others from."""
    with machine(place / "base") as base, operator(place / "base-operator") as somebody:
        somebody.know("base", base)
        somebody.rdc("machine", "add", "base", "--host", "base")
        done = somebody.rdc(
            "machine", "setup", "base", "--wheelhouse", str(wheelhouse), "--install-nvidia-toolkit", "false"
        )
        assert done.returncode == 0, done
        # Repositories are refused on a machine without Docker.
        base.run("ln", "-s", obtain().program("dockerd"), "/usr/local/bin/dockerd")
        save_image(base, place / "image.tar")
    return place / "image.tar"


_count = itertools.count()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is ended with the test."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def bare(place: Path, stack: ExitStack) -> NewMachine:
    """Starts machines with nothing but SSH, sudo and Python."""

    def start(**options: Any) -> Machine:
        return stack.enter_context(machine(place / f"m{next(_count)}", **options))

    return start


@pytest.fixture
def installed(bare: NewMachine, image: Path) -> NewMachine:
    """Starts machines that are set up."""

    def start(**options: Any) -> Machine:
        return bare(image=image, **options)

    return start


@pytest.fixture
def somebody(place: Path, stack: ExitStack) -> Operator:
    """An operator who knows no machine yet."""
    return stack.enter_context(operator(place / f"o{next(_count)}"))

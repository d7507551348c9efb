"""A link that a restart policy follows: nobody asks the gate, and the daemon can only read the system."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.image import IMAGE
from tests.engine.obtain import Engine
from tests.engine.repositories import Repositories


@pytest.fixture
def machine(engine: Engine) -> Iterator[Repositories]:
    with Repositories(engine) as machine:
        yield machine


@pytest.mark.slow
@pytest.mark.parametrize("target", ["/etc", "/usr/local/src"])
def test_what_a_restart_policy_reaches_cannot_be_changed(
    machine: Repositories, tmp_path: Path, target: str
) -> None:
    machine.create("gpu-a")
    place = tmp_path / "place"
    place.mkdir()
    planted = Path(target) / f"planted-{machine.directory.name}"
    do = f"echo x >/x/{planted.name} && echo wrote || echo could not; sleep 60"
    options = ["--restart", "always", "--stop-timeout", "0", "-v", f"{place}:/x", "--name", "job"]
    machine.docker("gpu-a", "run", "-d", *options, IMAGE, "sh", "-c", do)
    _until((place / planted.name).exists)
    (place / planted.name).unlink()
    place.rmdir()
    place.symlink_to(target)
    # The container ends by itself, as a tenant would have it, and the daemon starts it again.
    pid = machine.docker("gpu-a", "inspect", "-f", "{{.State.Pid}}", "job").stdout.strip()
    os.kill(int(pid), signal.SIGKILL)
    try:
        _until(lambda: "could not" in machine.docker("gpu-a", "logs", "job", check=False).stdout)
        assert not planted.exists()
    finally:
        planted.unlink(missing_ok=True)
        machine.docker("gpu-a", "rm", "-f", "job")


def _until(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)

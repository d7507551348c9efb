"""``scripts/demo`` tells the main job, and leaves nothing behind, on Ctrl-C too."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.machine import SOURCE


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short path: that of a unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="demo-") as path:
        yield Path(path)


@contextmanager
def started(*arguments: str, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    # The program behind scripts/demo, which has made this environment.
    demo = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo", *arguments],
        cwd=SOURCE,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield demo
    finally:
        demo.terminate()
        demo.communicate()


def test_it_tells_the_main_job_and_cleans_up(temporary: Path) -> None:
    with started(temporary=temporary) as demo:
        told, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, told
    refused = (
        "authorization denied by plugin rediacc-demo: repository demo has no grant for nvidia.com/gpu=0."
    )
    assert told.count(refused) == 2
    assert "opened /dev/nvidia0" in told
    assert "--gpus and device reservations are refused on this machine. Use --device nvidia.com/gpu=0" in told
    assert list(temporary.iterdir()) == []


def test_keep_waits_and_ctrl_c_ends_everything(temporary: Path) -> None:
    with started("--keep", temporary=temporary) as demo:
        assert demo.stdout is not None
        told = []
        for line in demo.stdout:
            told.append(line)
            if "Ctrl-C here" in line:
                break
        (host,) = [line.split("=", 1)[1].strip() for line in told if "export DOCKER_HOST=" in line]
        assert Path(host.removeprefix("unix://")).is_socket()
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert list(temporary.iterdir()) == []
    assert not _mentions(str(temporary))


def _mentions(directory: str) -> list[str]:
    """Processes that still work in `directory`, but for those that end at this moment."""
    deadline = time.monotonic() + 5
    while True:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if directory in command:
                found.append(command)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)

"""A path that hangs keeps its own repository waiting, for a while, and nobody else."""

import subprocess
import sys
from pathlib import Path

from plugin.context import Place
from plugin.patience import patiently

ROOT = Path(__file__).parents[3]
# In a process of its own, patched as the gate's worker is.
WORKER = """
from gevent import monkey
monkey.patch_all()
import gevent, sys, time
from pathlib import Path
from plugin import patience
from plugin.context import Place, Unanswered

patience.TIMEOUT = 0.5
really_sleep = monkey.get_original("time", "sleep")

def hangs():
    really_sleep(3)
    return Place("/late")

def count():
    while True:
        ticks.append(time.monotonic())
        gevent.sleep(0.01)

ticks = []
gevent.spawn(count)
started = time.monotonic()
stuck = [gevent.spawn(patience.patiently, Path("/stuck.sock"), hangs) for _ in range(patience.THREADS + 2)]
gevent.sleep(0.05)
assert patience.patiently(Path("/other.sock"), lambda: Place("/x")) == Place("/x")
assert time.monotonic() - started < 0.4, "another repository waited"
gevent.joinall(stuck)
assert all(isinstance(each.value, Unanswered) for each in stuck)
assert time.monotonic() - started < 2.5, "longer than it may"
assert max(after - before for before, after in zip(ticks, ticks[1:])) < 0.4, "the loop stood still"
print("good")
sys.stdout.flush()
import os
os._exit(0)
"""


def test_in_the_gate() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "good\n", done.stderr


def test_in_a_command() -> None:
    assert patiently(Path("/any.sock"), lambda: Place("/x")) == Place("/x")


def test_the_gates_sandbox_hides_no_path_from_it() -> None:
    # A link in /tmp or /home that the gate cannot see is one that it lets pass.
    unit = (ROOT / "deploy/systemd/rediacc-gate.service").read_text()
    hiding = (
        "PrivateTmp",
        "ProtectHome",
        "PrivateDevices",
        "InaccessiblePaths",
        "TemporaryFileSystem",
        "RootDirectory",
    )
    assert not [name for name in hiding if f"\n{name}=" in unit]

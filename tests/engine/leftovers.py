"""Ends what a dockerd leaves running, found by mount namespace and cgroup, never by a program's name."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
PATIENCE = 10.0


def own_mount_namespace(pid: int) -> str | None:
    """The mount namespace of `pid`, or None while it is still ours (before unshare) or has ended."""
    namespace = _namespace(pid)
    return None if namespace == _namespace(os.getpid()) else namespace


def kill_namespace(namespace: str) -> None:
    """Kills every process of the mount namespace `namespace`, and returns when none is left."""
    _kill_all(lambda: (pid for pid in _pids() if _namespace(pid) == namespace))


def kill_cgroup(name: str) -> None:
    """Kills every process in the cgroup `name` and below, in each hierarchy that has it."""
    _kill_all(lambda: _members(name))


def remove_cgroup(name: str) -> None:
    """Removes the empty cgroup `name` with what is below it."""
    for top in _cgroups(name):
        below = [Path(directory) for directory, _, _ in os.walk(top, topdown=False)]
        for directory in below:
            _retry_rmdir(directory)


def _kill_all(find: Callable[[], Iterable[int]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while found := list(find()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {found} do not end")
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _namespace(pid: int) -> str | None:
    # A zombie has no namespace any more: what reaps it is not our concern.
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return None


def _cgroups(name: str) -> list[Path]:
    """`name` in the unified hierarchy (cgroup v2) and in every mounted controller (v1, hybrid)."""
    places = [
        CGROUP_ROOT,
        *(path for path in CGROUP_ROOT.iterdir() if path.is_dir() and not path.is_symlink()),
    ]
    return [place / name for place in places if (place / name).is_dir()]


def _members(name: str) -> Iterator[int]:
    for top in _cgroups(name):
        # Unlike Path.rglob, os.walk goes past what is removed meanwhile.
        for directory, _, files in os.walk(top):
            if "cgroup.procs" in files:
                with suppress(OSError):
                    yield from (int(line) for line in Path(directory, "cgroup.procs").read_text().split())


def _retry_rmdir(directory: Path) -> None:
    """The kernel answers "busy" for a moment after the last process has gone."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return

"""What a daemon may leave behind when it ends badly: processes and cgroups. Found, ended, removed.

Processes are found by what they are told (the exec root in their arguments), by the mount namespace they
share with such a process, and by the cgroup of the repository's containers: never by a program's name.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from spec.errors import CommandFailedError

CGROUPS = Path("/sys/fs/cgroup")
#: Seconds that the kernel may take to let go of killed processes and their cgroups.
PATIENCE = 10.0


def kill_processes(exec_root: Path, cgroup: Path) -> tuple[int, ...]:
    """Kill every process that belongs to a daemon, and return their ids once none is left.

    `exec_root` is the daemon's, `cgroup` the parent of its containers' cgroups relative to a hierarchy.
    Raises `CommandFailedError` when some do not end.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    while found := belonging(exec_root, cgroup):
        if time.monotonic() > deadline:
            raise CommandFailedError(
                f"processes of the repository do not end: {', '.join(map(str, sorted(found)))}",
                "a process that waits for a device or a disk ends with it; look at them with ps, then repeat",
            )
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        time.sleep(0.02)
    return tuple(sorted(killed))


def belonging(exec_root: Path, cgroup: Path) -> set[int]:
    """The processes of the daemon with `exec_root`, and of the containers in `cgroup`."""
    ours = {namespace(os.getpid(), "mnt"), namespace(1, "mnt"), None}
    namespaces = {namespace(pid, "mnt") for pid in pids() if _is_told(pid, exec_root)} - ours
    sharing = {pid for pid in pids() if namespace(pid, "mnt") in namespaces}
    return sharing | set(members(cgroup))


def _is_told(pid: int, exec_root: Path) -> bool:
    needle = os.fsencode(exec_root) + b"/"
    # In a container anybody may give a process any arguments; a daemon's own are in our pid namespace.
    return any(needle in argument for argument in arguments(pid)) and (
        namespace(pid, "pid") == namespace(os.getpid(), "pid")
    )


def pids() -> Iterator[int]:
    """The ids of all processes that we can see."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def arguments(pid: int) -> tuple[bytes, ...]:
    """The command line of the process `pid`; empty when it has ended."""
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0"))
    except OSError:
        return ()


def namespace(pid: int, kind: str) -> str | None:
    """The namespace of `kind` (mnt, pid, net) that the process `pid` is in; `None` when it has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return None


def _directories(cgroup: Path) -> list[Path]:
    """`cgroup` in the unified hierarchy (v2) and in every controller's (v1)."""
    if not CGROUPS.is_dir():
        return []
    hierarchies = [CGROUPS, *(path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())]
    return [path / cgroup for path in hierarchies if (path / cgroup).is_dir()]


def members(cgroup: Path) -> Iterator[int]:
    """The processes in `cgroup` and below, in whichever hierarchy; another may remove it meanwhile."""
    for top in _directories(cgroup):
        # Path.rglob would end with the directory that it meets no more; os.walk goes past it.
        for directory, _, files in os.walk(top):
            if "cgroup.procs" in files:
                with contextlib.suppress(OSError):
                    yield from map(int, Path(directory, "cgroup.procs").read_text().split())


def remove_cgroup(cgroup: Path) -> None:
    """Remove `cgroup`, empty of processes, in every hierarchy; raises `CommandFailedError`."""
    deadline = time.monotonic() + PATIENCE
    for top in _directories(cgroup):
        for directory, _, _ in os.walk(top, topdown=False):
            _remove_directory(Path(directory), deadline)


def _remove_directory(directory: Path, deadline: float) -> None:
    """The kernel answers "busy" for a moment after the last process has gone."""
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise CommandFailedError(
                    f"the cgroup {directory} cannot be removed: {error.strerror}",
                    "repeat it; a restart of the machine removes it surely",
                ) from error
            time.sleep(0.02)
        else:
            return

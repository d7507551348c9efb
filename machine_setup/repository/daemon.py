"""The running daemon of a repository: which process it is, and how to end it."""

import contextlib
import os
import signal
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from grants_cli.register import Repository
from machine_setup.repository import daemon_json, leftovers
from spec.errors import CommandFailedError

#: Seconds. dockerd gives containers 10 s, itself 15 s (``shutdown-timeout``), and containerd a moment more.
STOP_TIMEOUT = 40.0
DEFAULT_PIDFILE = Path("/var/run/docker.pid")
_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Cgroup:
    """The cgroup that holds a repository's containers."""

    #: What daemon.json calls it.
    parent: str
    driver: str
    #: Where it is, relative to a hierarchy.
    path: Path


def cgroup_of(guid: str) -> Cgroup:
    """The containers' cgroup of the repository `guid` on this machine.

    Under systemd on cgroup v2 it is a slice, so that an operator can limit a repository with
    ``systemctl set-property``; elsewhere a plain cgroup.
    """
    short = guid.replace("-", "")[:12]
    if Path("/run/systemd/system").is_dir() and Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return Cgroup(f"rediacc-{short}.slice", "systemd", Path(f"rediacc.slice/rediacc-{short}.slice"))
    return Cgroup(f"/rediacc/{short}", "cgroupfs", Path(f"rediacc/{short}"))


def find(repository: Repository) -> int | None:
    """The process id of the repository's dockerd; `None` while it does not run.

    The pid file says it for a daemon that we configured. Otherwise the kernel says who listens on the socket,
    which is systemd or our own supervisor when one of them handed the socket over.
    """
    for pid in (_from_pid_file(repository), socket_owner(repository.socket)):
        if pid is not None and is_dockerd(pid):
            return pid
    return None


def is_dockerd(pid: int) -> bool:
    """Whether the process `pid` runs dockerd."""
    program = leftovers.arguments(pid)[:1]
    return bool(program) and Path(os.fsdecode(program[0])).name == "dockerd"


def _from_pid_file(repository: Repository) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(pid_file(repository).read_text())
    return None


def pid_file(repository: Repository) -> Path:
    """Where the repository's dockerd writes its process id."""
    if repository.managed and repository.exec_root:
        return repository.exec_root / "docker.pid"
    named = None
    with contextlib.suppress(Exception):  # doctor reports an unreadable daemon.json; here it names nothing
        named = daemon_json.read(repository.daemon_json).get("pidfile")
    return Path(str(named)) if named else DEFAULT_PIDFILE


def socket_owner(path: Path) -> int | None:
    """The process that made the listening unix socket `path`; `None` where none listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        except OSError:
            return None
    return int(_UCRED.unpack(credentials)[0]) or None


def terminate(pid: int, timeout: float = STOP_TIMEOUT) -> bool:
    """Ask the daemon `pid` to end; whether it has ended within `timeout` seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        return _wait(pid, timeout)
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def _wait(pid: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while is_dockerd(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def end_everything(repository: Repository) -> tuple[int, ...]:
    """End the repository's daemon with all that it started; the processes that had to be killed.

    Raises `CommandFailedError` when the kernel does not let go of one.
    """
    if repository.exec_root is None:
        raise CommandFailedError(
            f"renet did not start the daemon of {repository.ref}", "end it as it was started"
        )
    pid = find(repository)
    if pid is not None:
        terminate(pid)
    cgroup = cgroup_of(repository.guid).path
    killed = leftovers.kill_processes(repository.exec_root, cgroup)
    leftovers.remove_cgroup(cgroup)
    return killed

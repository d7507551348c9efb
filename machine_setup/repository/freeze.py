"""Holding a running repository still while its files are copied.

Stopped processes write nothing, so what is copied meanwhile is the state of one moment, as after a power
failure: databases and dockerd's own are made to come back from that. Nobody's state changes: dockerd and the
containers go on where they were.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from grants_cli.register import Repository
from machine_setup.repository import daemon, leftovers
from spec.errors import CommandFailedError

#: Seconds until every process must stand still; one that waits for a disk stops when the disk answers.
PATIENCE = 20.0


@contextlib.contextmanager
def frozen(repository: Repository) -> Iterator[int]:
    """Stop every process of the repository's daemon and containers; yields how many.

    They go on at the end, however it ends; those that stood still before stay so. Raises
    `CommandFailedError` when one does not stop.
    """
    stopped: set[int] = set()
    try:
        _stop_all(repository, stopped)
        yield len(stopped)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stop_all(repository: Repository, stopped: set[int]) -> None:
    assert repository.exec_root is not None  # noqa: S101 - only managed repositories are frozen
    cgroup = daemon.cgroup_of(repository.guid).path
    deadline = time.monotonic() + PATIENCE
    # Until a look finds nothing new: a process may have been born while its parent was being stopped.
    while moving := {
        pid for pid in leftovers.belonging(repository.exec_root, cgroup) if _state(pid) not in "TtZX"
    }:
        if time.monotonic() > deadline:
            raise CommandFailedError(
                f"processes of {repository.ref} do not stand still: {', '.join(map(str, sorted(moving)))}",
                f"stop the repository first: renet repo stop {repository.ref}",
            )
        for pid in moving - stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
        time.sleep(0.005)


def _state(pid: int) -> str:
    """The state letter of proc_pid_stat(5): T is stopped, Z a zombie, X gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"

"""The one lock over all grants and repositories of a machine.

It is a BSD lock on a file that is never removed: the kernel lets go of it when its holder ends, however
that happens. The holder writes into the file who it is, for those who wait.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from grants_cli.operator import operator_name
from grants_cli.times import to_text
from spec.errors import BusyError, StorageError

#: Seconds. A change takes milliseconds: whoever waits this long waits for something that hangs.
TIMEOUT = 10.0
_CHECK_EVERY = 0.02


@contextlib.contextmanager
def machine_lock(
    path: Path, now: datetime, timeout: float = TIMEOUT, activity: str = "changing the grants of this machine"
) -> Iterator[None]:
    """Hold the lock at `path` (made with mode 0600 where missing), which is about `activity`.

    Raises `BusyError` after `timeout` seconds, naming the holder, and `StorageError` when the file cannot
    be made.
    """
    # Who only reads, the gate above all, does not pay for its import.
    import portalocker

    lock = portalocker.Lock(
        str(path),
        mode="r+",
        timeout=timeout,
        check_interval=_CHECK_EVERY,
        flags=portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING,
        encoding="utf-8",
    )
    try:
        _make(path)
        file = lock.acquire()
    except (portalocker.LockException, portalocker.AlreadyLocked) as error:
        raise BusyError(
            f"another command is {activity}: {_holder(path)}",
            f"wait for it to end, or look at it: fuser -v {path}",
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot take the lock {path}: {error.strerror}", f"{activity} needs root and a writable disk"
        ) from error
    try:
        _sign(file, now)
        yield
    finally:
        lock.release()


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def _sign(file: IO[str], now: datetime) -> None:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    holder = {"pid": os.getpid(), "command": command, "user": operator_name(), "since": to_text(now)}
    # Nobody but a person reads it: a disk too full for it must not keep a revocation from happening.
    with contextlib.suppress(OSError):
        file.seek(0)
        file.truncate()
        file.write(json.dumps(holder) + "\n")
        file.flush()


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"{holder['command']} (process {holder['pid']}, by {holder['user']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said who it is"

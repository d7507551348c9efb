"""The gate's listening sockets: handed over by systemd, or bound here, and removed when they are dead."""

import contextlib
import os
import socket
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

from gunicorn import systemd
from gunicorn.sock import UnixSocket

from spec.errors import BusyError, UsageError


class Listener(UnixSocket):
    """A listening plugin socket, as gunicorn holds it; `fd` is one that systemd hands over.

    A socket that is bound here takes the place of a dead one, has mode 0600, and is removed by `remove`.
    Raises `OSError` where it cannot be bound.
    """

    def __init__(self, path: str, conf: Any, log: Any, fd: int | None = None) -> None:
        self.path = path
        self.inherited = fd is not None
        self._inode: tuple[int, int] | None = None
        super().__init__(path, conf, log, fd=fd)

    def bind(self, sock: socket.socket) -> None:
        """Bind `sock`; gunicorn's own would change the owner, which the unit's sandbox forbids."""
        before = os.umask(0o177)
        try:
            sock.bind(self.path)
        finally:
            os.umask(before)
        self._inode = _inode(self.path)

    def remove(self) -> None:
        """Remove the socket's file, unless systemd owns it or it has been replaced."""
        if self._inode and _inode(self.path) == self._inode:
            Path(self.path).unlink(missing_ok=True)


def inherited(conf: Any, log: Any) -> list[Listener]:
    """The sockets that systemd hands over (sd_listen_fds(3)); each is known by its path."""
    listeners = []
    for fd in range(systemd.SD_LISTEN_FDS_START, systemd.SD_LISTEN_FDS_START + systemd.listen_fds()):
        with socket.fromfd(fd, socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            path = probe.getsockname()
        if not isinstance(path, str) or not path.startswith("/"):
            raise UsageError(
                f"file descriptor {fd} is no plugin socket: {path!r}",
                "ListenStream of the gate's socket units is a path in /run/docker/plugins",
            )
        listeners.append(Listener(path, conf, log, fd=fd))
    return listeners


def remove_dead(paths: Iterable[Path], wanted: Set[str]) -> None:
    """Remove each plugin socket that nobody serves: it would cost every dockerd 15 s at a volume listing.

    Raises `BusyError` where somebody serves one that is `wanted` here.
    """
    for path in paths:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except FileNotFoundError:
                continue
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
                continue
        if str(path) not in wanted:
            continue
        raise BusyError(
            f"another process serves {path}",
            "One gate answers for all repositories: stop the other one (systemctl stop rediacc-gate)",
        )


def _inode(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(FileNotFoundError):
        stat = Path(path).stat()
        return stat.st_dev, stat.st_ino
    return None

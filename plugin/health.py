"""Whether the gate answers, asked as dockerd asks it: for a container's HEALTHCHECK, and for people."""

import http.client
import socket
from dataclasses import dataclass
from pathlib import Path

from grants_cli.store import read_register
from plugin.answers import ACTIVATE
from spec.errors import UnreachableError
from spec.layout import Layout

#: Seconds that one socket may take.
TIMEOUT = 5.0


@dataclass(frozen=True)
class Health:
    """How many plugin sockets answered."""

    sockets: int

    def record(self) -> dict[str, int]:
        """For ``-o json``."""
        return {"sockets": self.sockets}


class _Plugin(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(self._path))


def health(layout: Layout) -> Health:
    """Ask on every registered repository's socket; raises `UnreachableError` for the first that is silent."""
    paths = [layout.plugin_socket(repository.slug) for repository in read_register(layout).repositories]
    for path in paths:
        try:
            answer = _activate(path)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"the gate does not answer on {path}: {error}", _HINT) from error
        if answer != ACTIVATE:
            raise UnreachableError(f"what answers on {path} is not the gate", _HINT)
    return Health(len(paths))


def _activate(path: Path) -> bytes:
    connection = _Plugin(path)
    try:
        connection.request("POST", "/Plugin.Activate", headers={"Content-Length": "0"})
        return connection.getresponse().read()
    finally:
        connection.close()


_HINT = "systemctl status rediacc-gate, or renet gate serve; renet doctor looks for what is known"

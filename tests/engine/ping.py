"""Asks a Docker API whether it answers, without a client library."""

import socket
from pathlib import Path


def answers(path: Path, timeout: float = 30) -> bool:
    """Whether an HTTP server answers on the unix socket `path`, with any status.

    dockerd opens its socket before it is ready and answers the first request only then: hence the patience.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")
            return connection.recv(12).startswith(b"HTTP/")
        except OSError:
            return False

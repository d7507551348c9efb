"""One HTTP request over a unix socket: asking a daemon, or a gate, without a client library's start-up."""

import http.client
import json
import socket
from pathlib import Path

from spec.errors import UnreachableError


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def request(path: Path, method: str, target: str, timeout: float) -> tuple[int, bytes]:
    """The status and the body that the server on `path` answers; raises `UnreachableError`.

    `timeout` is in seconds, for each step.
    """
    connection = _Connection(path, timeout)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except TimeoutError as error:
        raise UnreachableError(f"{path} does not answer within {timeout:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{path} does not answer: {error}") from error
    finally:
        connection.close()


def get_object(path: Path, target: str, timeout: float) -> dict[str, object]:
    """The JSON object that the server on `path` has at `target`; raises `UnreachableError`."""
    status, body = request(path, "GET", target, timeout)
    try:
        answer: object = json.loads(body)
    except ValueError as error:
        raise UnreachableError(f"{path} answers {target} with no JSON (status {status})") from error
    if status != 200 or not isinstance(answer, dict):
        message = answer.get("message") if isinstance(answer, dict) else answer
        raise UnreachableError(f"{path} refuses {target}: {message}")
    return answer

"""The gate as a process, for tests that speak to it as dockerd does or as an attacker would."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grants_cli import repositories
from grants_cli.refs import Ref
from grants_cli.register import Register, Repository
from grants_cli.store import GrantStore
from spec.layout import Layout

_HAND_OVER = """\
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""
SOURCE = Path(__file__).parents[1]
PATIENCE = 20.0
REQUEST = "AuthZPlugin.AuthZReq"
RESPONSE = "AuthZPlugin.AuthZRes"
RENET = (sys.executable, "-m", "machine_setup.renet")


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Return once `condition` holds; raises `AssertionError` with `what` when it takes too long."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def connect(path: Path) -> socket.socket:
    """A connection to the plugin socket `path`."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def message(method: str, target: str, body: object = None) -> bytes:
    """The authorization message for a request of the Docker API."""
    fields: dict[str, Any] = {"RequestMethod": method, "RequestUri": target}
    if body is not None:
        fields["RequestBody"] = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps(fields).encode()


PING = message("HEAD", "/_ping")


def http(route: str, body: bytes, *headers: str) -> bytes:
    """The bytes of a call as Go's client writes them."""
    lines = [
        f"POST /{route} HTTP/1.1",
        "Host: plugin",
        "User-Agent: Go-http-client/1.1",
        f"Content-Length: {len(body)}",
        "Accept: application/vnd.docker.plugins.v1.2+json",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_answer(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The next answer on `sock`: status, headers, body. Raises `EOFError` where there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            raise EOFError
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += sock.recv(65536)
    return int(status.split()[1]), headers, body


def ask(sock: socket.socket, route: str, body: bytes) -> dict[str, Any]:
    """One call and its answer, which has status 200."""
    sock.sendall(http(route, body))
    status, _, answer = read_answer(sock)
    assert status == 200
    answered: dict[str, Any] = json.loads(answer)
    return answered


class GateProcess:
    """``renet gate serve`` on the machine below `root`; ended on exit."""

    def __init__(self, root: Path, options: Sequence[str] = (), **environment: str) -> None:
        self.layout = Layout.at(root)
        self.log_file = root / "gate.out"
        self.options = tuple(options)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "REDIACC_ROOT": str(root),
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def renet(self, *arguments: str) -> str:
        """Run ``renet`` on this machine, for its stdout."""
        return subprocess.run(
            [*RENET, *arguments], env=self.environment, check=True, capture_output=True, text=True
        ).stdout

    def adopt(self, *names: str) -> Path:
        """Register repositories without a daemon; the path of the first one's plugin socket."""
        with GrantStore(self.layout).transaction() as transaction:
            for name in names:
                ref, guid = Ref.parse(name), repositories.new_guid()
                places = repositories.Places.managed(self.layout, ref, guid)
                repository = Repository(
                    guid, ref, places.socket, places.data_root, places.daemon_json, False, transaction.now
                )
                repositories.add(transaction, repository, "repository-adopt")
        return self.layout.plugin_socket(names[0])

    def forget(self, name: str) -> None:
        """Take a repository out of the register."""
        with GrantStore(self.layout).transaction() as transaction:
            gone = transaction.register.by_slug[name]
            rest = tuple(known for known in transaction.register.repositories if known != gone)
            transaction.commit("repository-delete", register=Register(rest))

    def start(self, command: Sequence[str] = (), **popen: Any) -> Self:
        """Start it, by way of `command` if that is given, and return once every socket answers."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *RENET, "gate", "serve", *self.options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **popen,
            )
        return self

    def wait(self, *paths: Path) -> Self:
        """Return once the gate answers on each of `paths`."""
        for path in paths:
            wait_until(lambda path=path: self.answers(path), f"no answer on {path}: {self.log}")  # type: ignore[misc]
        return self

    def answers(self, path: Path) -> bool:
        """Whether the gate answers on `path`."""
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            with connect(path) as sock:
                return ask(sock, "Plugin.Activate", b"") == {"Implements": ["authz"]}
        except OSError:
            return False

    def start_with(self, listener: socket.socket) -> Self:
        """Start it as systemd does: with `listener` for its file descriptor 3 (sd_listen_fds(3))."""
        self.environment["LISTEN_FDS"] = "1"
        fd = listener.fileno()
        return self.start([sys.executable, "-c", _HAND_OVER, str(fd)], pass_fds=[fd])

    @property
    def log(self) -> str:
        """What it has written."""
        return self.log_file.read_text()

    @property
    def worker(self) -> int:
        """The worker's process id, once there is exactly one."""
        found: list[int] = []

        def one() -> bool:
            found[:] = self.workers()
            return len(found) == 1

        wait_until(one, f"no single worker: {self.log}")
        return found[0]

    def workers(self) -> list[int]:
        """The process ids of all its workers."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def kill_worker(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill the worker; returns the process id of the next one, which may not serve yet."""
        before = self.worker
        os.kill(before, how)
        wait_until(lambda: self.workers() not in ([], [before]), "the worker has no successor")
        return self.worker

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(PATIENCE * 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process and self.process.poll() is None:
            self.stop()

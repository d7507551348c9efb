"""The gate as dockerd meets it: restarted, reloaded and killed under load, it admits and loses nothing."""

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http import client as http_client
from pathlib import Path

import pytest

from tests.engine.daemon import Daemon
from tests.engine.obtain import Engine
from tests.gate_process import PING, REQUEST, GateProcess, ask, connect, wait_until

ALLOWED = {"Allow": True}
REPOSITORY = "gpu-a"
#: The oldest API version of a current Docker (29.0 and later), and the newest of the oldest (25.0).
API = "/v1.44"
CREATE = f"{API}/containers/create"
# No such image: what passes the gate is answered 404 and leaves nothing behind.
HARMLESS = json.dumps({"Image": "none", "HostConfig": {}}).encode()
FORBIDDEN = json.dumps(
    {
        "Image": "none",
        "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]},
    }
).encode()
CLIENTS = 8
#: Seconds. dockerd waits one before it repeats a call that broke off, and each client has one in hand.
AFTER_A_KILL = 2.0


class Connection(http_client.HTTPConnection):
    """HTTP to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Load:
    """Clients of a daemon's API that ask for harmless and for forbidden things in turn, until `stop`."""

    def __init__(self, api: Path) -> None:
        self._api = api
        self._ended = threading.Event()
        #: Answers by (what was asked, status).
        self.answers: Counter[tuple[str, int]] = Counter()
        self.texts: Counter[str] = Counter()
        self.broken: list[Exception] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the clients, each after its answer."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def count(self) -> int:
        """The answers so far."""
        return self.answers.total()

    def _client(self) -> None:
        connection = Connection(self._api)
        while not self._ended.is_set():
            try:
                for name, method, target, body in (
                    ("ping", "GET", "/_ping", b""),
                    ("forbidden", "POST", CREATE, FORBIDDEN),
                    ("list", "GET", f"{API}/containers/json", b""),
                    ("harmless", "POST", CREATE, HARMLESS),
                ):
                    connection.request(method, target, body, {"Content-Type": "application/json"})
                    response = connection.getresponse()
                    text = response.read().decode()
                    with self._lock:
                        self.answers[name, response.status] += 1
                        if response.status == 403:
                            self.texts[f"{name}: {text}"] += 1
            except (OSError, http_client.HTTPException) as error:
                self.broken.append(error)
                return
        connection.close()


class Restarts:
    """The gate of one daemon, on a socket that outlives it as one of systemd's does."""

    def __init__(self, gate: GateProcess, daemon: Daemon, listener: socket.socket) -> None:
        self.gate = gate
        self.daemon = daemon
        self._listener = listener

    def restart(self) -> None:
        """End it gracefully and start the next one, as ``systemctl restart`` does."""
        assert self.gate.stop() == 0, self.gate.log
        self.gate.start_with(self._listener)

    def reload(self) -> None:
        """As ``systemctl reload`` does; returns when the old worker has gone."""
        before = self.gate.worker
        assert self.gate.process is not None
        os.kill(self.gate.process.pid, signal.SIGHUP)
        wait_until(lambda: before not in self.gate.workers(), "the old worker stays")

    def kill_worker(self) -> None:
        """Kill the worker in the middle of whatever it does."""
        self.gate.kill_worker()


@pytest.fixture
def restarts(engine: Engine, tmp_path: Path) -> Iterator[Restarts]:
    """A daemon with a gate that its socket outlives."""
    with ExitStack() as stack:
        gate = stack.enter_context(GateProcess(tmp_path))
        path = gate.adopt(REPOSITORY)
        path.parent.mkdir(parents=True)
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(4096)
        gate.start_with(listener).wait(path)
        configuration = {"authorization-plugins": [path.stem]}
        daemon = stack.enter_context(Daemon(engine, configuration, plugin_dir=path.parent))
        yield Restarts(gate, daemon, listener)


def load_while(restarts: Restarts, requests: int, disturb: Callable[[], None], pause: float = 0.3) -> Load:
    """The answers to at least `requests` requests, while `disturb` is done again and again."""
    load = Load(restarts.daemon.socket)
    try:
        while load.count < requests and not load.broken:
            disturb()
            time.sleep(pause)
    finally:
        load.stop()
    return load


def retried(daemon: Daemon) -> list[str]:
    """Why dockerd repeated calls to its plugin, in its own words."""
    return [line for line in daemon.log().splitlines() if "to plugin" in line]


def assert_nothing_is_admitted(load: Load) -> None:
    assert load.broken == []
    assert {status for name, status in load.answers if name == "forbidden"} == {403}
    assert all("authorization denied by plugin" in text for text in load.texts)


def assert_nothing_is_lost(load: Load, daemon: Daemon) -> None:
    assert {status for name, status in load.answers if name != "forbidden"} == {200, 404}, retried(daemon)
    # Each denial is a decision, and none is the answer to a call that was repeated without its body.
    assert all("nvidia.com/gpu=0" in text for text in load.texts), retried(daemon)


def test_graceful_restarts_and_reloads_lose_no_request(restarts: Restarts) -> None:
    def disturb() -> None:
        restarts.restart()
        restarts.gate.wait(restarts.gate.layout.plugin_socket(REPOSITORY))
        restarts.reload()

    load = load_while(restarts, 1_000, disturb)
    assert_nothing_is_admitted(load)
    assert_nothing_is_lost(load, restarts.daemon)


def test_workers_that_are_killed_lose_what_is_in_hand_and_admit_nothing(restarts: Restarts) -> None:
    load = load_while(restarts, 1_000, restarts.kill_worker, AFTER_A_KILL)
    assert_nothing_is_admitted(load)
    assert {status for name, status in load.answers if name != "forbidden"} <= {200, 403, 404}
    # Most are answered as ever; dockerd repeats a broken call without its body, and that is denied.
    assert load.answers["list", 200] > load.answers["list", 403]


@pytest.mark.slow
@pytest.mark.parametrize("disturbance", ["restart", "reload", "kill_worker"])
def test_ten_thousand_requests_while_the_gate_is_disturbed(restarts: Restarts, disturbance: str) -> None:
    def disturb() -> None:
        getattr(restarts, disturbance)()
        restarts.gate.wait(restarts.gate.layout.plugin_socket(REPOSITORY))

    load = load_while(restarts, 10_000, disturb, AFTER_A_KILL if disturbance == "kill_worker" else 0.3)
    assert_nothing_is_admitted(load)
    if disturbance != "kill_worker":
        assert_nothing_is_lost(load, restarts.daemon)


def test_a_hostile_neighbour_on_the_socket_does_not_stop_dockerd(restarts: Restarts) -> None:
    path = restarts.gate.layout.plugin_socket(REPOSITORY)
    with ExitStack() as stack:
        for data in (
            b"",
            b"\0" * 100,
            b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nContent-Length: 999\r\n\r\n{",
        ):
            for _ in range(10):
                stack.enter_context(connect(path)).sendall(data)
        connection = Connection(restarts.daemon.socket)
        connection.request("GET", "/_ping")
        assert connection.getresponse().read() == b"OK"
        connection.close()


def test_a_socket_is_handed_over_by_systemd(tmp_path: Path) -> None:
    activate = shutil.which("systemd-socket-activate")
    assert activate, "systemd-socket-activate is missing: apt-get install systemd"
    with GateProcess(tmp_path) as gate:
        path = gate.adopt(REPOSITORY)
        other = gate.adopt("gpu-b")
        path.parent.mkdir(parents=True)
        environment = [f"--setenv={name}" for name in ("REDIACC_ROOT", "PYTHONPATH", "PATH")]
        gate.start([activate, f"--listen={path}", *environment])
        wait_until(path.exists, f"nothing listens: {gate.log}")
        inode = path.stat().st_ino
        # The first connection starts it; what it is not handed, it binds itself.
        with connect(path) as sock:
            assert ask(sock, REQUEST, PING) == ALLOWED
        gate.wait(other)
        assert path.stat().st_ino == inode
        assert gate.stop() == 0
        assert path.exists()
        assert not other.exists()

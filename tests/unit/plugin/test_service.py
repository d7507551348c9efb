"""The gate as a service: it answers everyone whom it should, whatever its other visitors do."""

import contextlib
import json
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugin.connection import IDLE_LIMIT
from plugin.door import LARGE_LIMIT
from plugin.wire import MESSAGE_LIMIT
from tests.gate_process import (
    PING,
    REQUEST,
    RESPONSE,
    GateProcess,
    ask,
    connect,
    http,
    message,
    read_answer,
    wait_until,
)

ALLOWED = {"Allow": True}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """One gate for the tests that leave it as it is, with the repositories ``a`` and ``b``."""
    with GateProcess(tmp_path_factory.mktemp("gate", numbered=True)) as process:
        process.start().wait(process.adopt("a"), process.adopt("b"))
        yield process


@pytest.fixture
def own_gate(tmp_path: Path) -> Iterator[GateProcess]:
    """A gate that the test may end."""
    with GateProcess(tmp_path) as process:
        yield process


@pytest.fixture
def a(gate: GateProcess) -> Path:
    return gate.layout.plugin_socket("a")


@pytest.fixture
def b(gate: GateProcess) -> Path:
    return gate.layout.plugin_socket("b")


def test_the_three_calls_are_answered_on_one_connection(a: Path) -> None:
    with connect(a) as sock:
        assert ask(sock, "Plugin.Activate", b"") == {"Implements": ["authz"]}
        assert ask(sock, REQUEST, PING) == ALLOWED
        assert ask(sock, RESPONSE, PING) == ALLOWED
        assert ask(sock, RESPONSE, b"no JSON at all") == ALLOWED
        assert ask(sock, REQUEST, PING) == ALLOWED


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b"[]", b"null", b'{"RequestMethod":"GET"'])
def test_a_message_that_cannot_be_read_is_denied_with_a_reason(a: Path, body: bytes) -> None:
    with connect(a) as sock:
        answer = ask(sock, REQUEST, body)
    assert answer["Allow"] is False
    assert answer["Msg"]


def test_a_socket_is_for_root_alone(a: Path) -> None:
    assert stat.S_IMODE(a.stat().st_mode) == 0o600


def test_a_peer_that_is_not_root_is_denied(a: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # SO_PEERCRED tells who called connect
        try:
            os.chdir(a.parent)  # which nobody else may reach by its path
            a.chmod(0o666)
            os.setresuid(65534, 65534, 65534)
            with connect(Path(a.name)) as sock:
                sock.sendall(http(REQUEST, PING))
                os.write(writer, read_answer(sock)[2])
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    a.chmod(0o600)
    answer = json.loads(os.read(reader, 4096))
    assert answer["Allow"] is False
    assert "root" in answer["Msg"]


def test_keep_alive_is_longer_than_dockerds_half_minute() -> None:
    assert IDLE_LIMIT > 30


def large(length: int) -> bytes:
    """An authorization message of `length` bytes."""
    empty = message("POST", "/v1.47/containers/create", {"Labels": {"a": ""}})
    start = json.loads(empty)
    start["Padding"] = ""
    start["Padding"] = "x" * (length - len(json.dumps(start)))
    return json.dumps(start).encode()


def test_six_megabytes_are_judged_and_more_is_refused_unread(gate: GateProcess, a: Path) -> None:
    with connect(a) as sock:
        # What is wrong with it is told by the decision, so it has been judged.
        assert "larger than" not in ask(sock, REQUEST, large(6_000_000)).get("Msg", "")
        assert "larger than" not in ask(sock, REQUEST, large(MESSAGE_LIMIT)).get("Msg", "")
        before = peak_memory(gate.worker)
        for length in (MESSAGE_LIMIT + 1, 60_000_000):
            answer = ask(sock, REQUEST, b" " * length)
            assert answer["Allow"] is False
            assert "larger than 6 MiB" in answer["Msg"]
        assert ask(sock, REQUEST, PING) == ALLOWED
        assert peak_memory(gate.worker) - before < 4_000_000


def test_a_message_that_claims_to_be_huge_is_refused_at_once(a: Path) -> None:
    with connect(a) as sock:
        sock.sendall(http(REQUEST, b"").replace(b"Content-Length: 0", b"Content-Length: 999999999"))
        status, headers, body = read_answer(sock)
        assert (status, headers["connection"]) == (200, "close")
        assert json.loads(body)["Allow"] is False


def test_memory_stays_small_while_many_large_messages_are_on_their_way(gate: GateProcess, a: Path) -> None:
    before = memory(gate.worker)
    call = memoryview(http(REQUEST, large(6_000_000)))[:-1]
    with contextlib.ExitStack() as stack:
        rests = dict.fromkeys((stack.enter_context(connect(a)) for _ in range(40)), call)
        for sock in rests:
            sock.setblocking(False)

        def push() -> int:
            for sock in rests:
                with contextlib.suppress(BlockingIOError):
                    while rests[sock]:
                        rests[sock] = rests[sock][sock.send(rests[sock]) :]
            return sum(not rest for rest in rests.values())

        wait_until(lambda: push() >= LARGE_LIMIT, "the large messages do not arrive")
        time.sleep(0.5)
        # 40 at once would be 240 MB; a repository has four.
        assert push() == LARGE_LIMIT
        assert memory(gate.worker) - before < 40_000_000


# Each begins as what it is named after, and then says no more.
HOSTILE = {
    "nothing": b"",
    "half a head": http(REQUEST, PING)[:40],
    "half a body": http(REQUEST, PING)[:-5],
    "garbage": bytes(range(256)) * 64,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a huge header": b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nX: " + b"x" * 1_000_000,
    "many headers": b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
    "a huge request line": b"POST /" + b"x" * 1_000_000,
    "two lengths": http(REQUEST, PING, "Content-Length: 3"),
    "a length and chunks": http(REQUEST, b"0\r\n\r\n", "Transfer-Encoding: chunked"),
    "chunks without an end": http(REQUEST, b"", "Transfer-Encoding: chunked").replace(
        b"Content-Length: 0\r\n", b""
    )
    + b"ffffff\r\nabc",
    "an obscured transfer coding": http(REQUEST, b"0\r\n\r\n", "Transfer-Encoding : chunked"),
    "a folded header": http(REQUEST, PING, "X: y\r\n Content-Length: 0"),
    "bare line feeds": http(REQUEST, PING).replace(b"\r\n", b"\n"),
    "a negative length": http(REQUEST, b"").replace(b": 0", b": -1"),
    "a pipeline": http(REQUEST, PING) * 100,
    "a request within a request": http(REQUEST, PING, "Transfer-Encoding: chunked", "Content-Length: 0")
    + http(REQUEST, PING),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_peer_stops_nobody(a: Path, b: Path, data: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            hostile = stack.enter_context(connect(a))
            hostile.setblocking(False)
            rest = data
            with contextlib.suppress(OSError):
                while rest:
                    rest = rest[hostile.send(rest) :]
        for path in (a, b):
            with connect(path) as sock:
                assert ask(sock, REQUEST, PING) == ALLOWED


SMUGGLED = http(REQUEST, message("POST", "/v1.47/swarm/init"))


@pytest.mark.parametrize(
    "first",
    [
        http(REQUEST, PING, "Transfer-Encoding: chunked"),
        http(REQUEST, PING, "Content-Length: 0"),
        http(REQUEST, PING, "content-length: 0"),
        http(REQUEST, PING, "Transfer-Encoding : chunked"),
        http(REQUEST, PING, "X: y\r\n\tContent-Length: 0"),
    ],
)
def test_a_length_that_can_be_read_in_two_ways_ends_the_connection(a: Path, first: bytes) -> None:
    with connect(a) as sock:
        sock.sendall(first + SMUGGLED)
        with contextlib.suppress(ConnectionResetError):
            answers = b""
            while part := sock.recv(65536):
                answers += part
        assert answers.count(b"HTTP/1.1 ") <= 1
        assert b'"Allow":true' not in answers


def test_one_byte_at_a_time_is_understood(a: Path) -> None:
    with connect(a) as sock:
        for byte in http(REQUEST, PING):
            sock.send(bytes([byte]))
        assert json.loads(read_answer(sock)[2]) == ALLOWED


def test_an_unusual_client_is_answered_too_by_the_whole_parser(gate: GateProcess, a: Path) -> None:
    with connect(a) as sock:
        chunked = http(REQUEST, b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
        sock.sendall(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(PING), PING))
        status, headers, body = read_answer(sock)
        assert (status, headers["connection"]) == (200, "close")
        assert json.loads(body) == ALLOWED
    with connect(a) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        # Even a route that does not exist is denied in dockerd's own terms.
        status, _, body = read_answer(sock)
        assert (status, json.loads(body)["Allow"]) == (200, False)
    assert "Traceback" not in gate.log


def test_a_repository_that_takes_all_its_connections_delays_no_other(a: Path, b: Path) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(str(a))
        with connect(b) as sock:
            started = time.monotonic()
            assert ask(sock, REQUEST, PING) == ALLOWED
            assert time.monotonic() - started < 10


def test_a_repository_comes_and_goes_without_a_break_for_another(gate: GateProcess, a: Path) -> None:
    ended = threading.Event()
    answers: list[object] = []

    def client() -> None:
        with connect(a) as sock:
            while not ended.is_set():
                answers.append(ask(sock, REQUEST, PING))

    thread = threading.Thread(target=client)
    thread.start()
    try:
        worker = gate.worker
        path = gate.adopt("newcomer")
        gate.wait(path)
        with connect(path) as sock:
            assert ask(sock, REQUEST, PING) == ALLOWED
            gate.forget("newcomer")
            wait_until(lambda: not path.exists(), "the socket of a deleted repository is still there")
            # Its connections end, too: none is left to be answered for a later repository of that name.
            with contextlib.suppress(ConnectionError):
                assert sock.recv(1) == b""
        assert gate.worker == worker
    finally:
        ended.set()
        thread.join()
    assert len(answers) > 10
    assert answers.count(ALLOWED) == len(answers)


def test_many_repositories_come_at_once(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    names = [f"tenant-{number}" for number in range(600)]
    own_gate.adopt(*names)
    own_gate.wait(*map(own_gate.layout.plugin_socket, names))
    with connect(path) as sock:
        assert ask(sock, REQUEST, PING) == ALLOWED


def test_sockets_that_cannot_be_bound_are_complained_of_once_and_tried_again(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    stones = [own_gate.layout.plugin_socket(name) for name in ("b", "c")]
    for stone in stones:
        stone.mkdir()
    own_gate.adopt("b", "c")
    wait_until(lambda: own_gate.log.count("cannot listen") == 2, "no complaint")
    time.sleep(1)
    assert own_gate.log.count("cannot listen") == 2
    for stone in stones:
        stone.rmdir()
    own_gate.wait(*stones)


def test_a_worker_that_dies_costs_the_requests_in_hand_and_no_other(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    with contextlib.ExitStack() as stack, connect(path) as in_hand:
        in_hand.sendall(http(REQUEST, PING)[:-1])
        time.sleep(0.1)
        os.kill(own_gate.worker, signal.SIGSTOP)
        # This one has not been accepted when the worker dies: the next worker answers it.
        waiting = stack.enter_context(connect(path))
        waiting.sendall(http(REQUEST, PING))
        own_gate.kill_worker()
        assert json.loads(read_answer(waiting)[2]) == ALLOWED
        with pytest.raises((EOFError, ConnectionResetError)):
            read_answer(in_hand)


def test_a_graceful_stop_answers_what_has_been_asked_and_removes_the_sockets(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    with connect(path) as idle, connect(path) as busy:
        for sock in (idle, busy):
            assert ask(sock, REQUEST, PING) == ALLOWED
        whole = http(REQUEST, PING)
        busy.sendall(whole[:-1])
        time.sleep(0.2)
        stopper = threading.Thread(target=own_gate.stop)
        stopper.start()
        assert idle.recv(1) == b""
        busy.sendall(whole[-1:])
        status, headers, body = read_answer(busy)
        assert (status, headers["connection"], json.loads(body)) == (200, "close", ALLOWED)
    stopper.join()
    assert own_gate.process is not None
    assert own_gate.process.returncode == 0
    assert not path.exists()


def test_a_worker_that_is_told_to_end_while_it_starts_ends(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    for delay in (0.0, 0.005, 0.02, 0.05, 0.1):
        first = own_gate.worker
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: own_gate.workers() not in ([], [first]), "the worker has no successor")  # noqa: B023
        second = own_gate.workers()[0]
        time.sleep(delay)
        os.kill(second, signal.SIGTERM)
        wait_until(lambda: second not in own_gate.workers(), f"{second} stays: {own_gate.log}", 10)  # noqa: B023
        own_gate.wait(path)


def test_an_idle_connection_that_ends_refuses_the_next_byte_rather_than_losing_it(
    own_gate: GateProcess,
) -> None:
    """Go's client repeats a call of which it could not write a byte, and no other."""
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    sent: list[int] = []
    lost: list[Exception] = []

    def client() -> None:
        with connect(path) as sock, contextlib.suppress(BrokenPipeError):
            while True:
                sock.sendall(http(REQUEST, PING))
                sent.append(1)
                try:
                    _, headers, _ = read_answer(sock)
                except (EOFError, OSError) as error:
                    lost.append(error)
                    return
                if headers.get("connection") == "close":
                    return

    for _ in range(3):
        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        assert own_gate.process is not None
        os.kill(own_gate.process.pid, signal.SIGHUP)  # a new worker, and the old one ends gracefully
        for thread in threads:
            thread.join()
        own_gate.wait(path)
    assert sent
    assert not lost


def test_a_dead_socket_is_removed_at_the_start_and_a_served_one_is_not(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    path.parent.mkdir(parents=True, exist_ok=True)
    dead = path.with_name("rediacc-gone.sock")
    for name in (path, dead):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(name))
    own_gate.start().wait(path)
    assert not dead.exists()
    with GateProcess(own_gate.layout.root) as second:
        second.log_file = own_gate.layout.root / "second.out"
        second.start()
        assert second.process is not None
        assert second.process.wait(20) == 15
        assert "another process serves" in second.log
    own_gate.wait(path)


def test_a_register_that_breaks_leaves_the_sockets_and_denies(own_gate: GateProcess) -> None:
    path = own_gate.adopt("a")
    own_gate.start().wait(path)
    whole = own_gate.layout.register.read_bytes()
    own_gate.layout.register.write_text("{")
    with connect(path) as sock:
        answer = ask(sock, REQUEST, PING)
        assert answer["Allow"] is False
        time.sleep(0.5)
        own_gate.layout.register.write_bytes(whole)
        assert ask(sock, REQUEST, PING) == ALLOWED
    assert own_gate.process is not None
    assert own_gate.process.poll() is None


def memory(pid: int) -> int:
    """Bytes of memory that the process has now."""
    return _status(pid, "VmRSS")


def peak_memory(pid: int) -> int:
    """Bytes of memory that the process has had at most."""
    return _status(pid, "VmHWM")


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)

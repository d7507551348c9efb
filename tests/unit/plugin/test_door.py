"""What one repository's visitors may do, and for how long."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from plugin.answers import ALLOW
from plugin.connection import CALL_LIMIT, FIRST_CALL_LIMIT, IDLE_LIMIT, ClosedError, UnusualError
from plugin.door import LARGE, Door, Pause
from plugin.message import STEP
from plugin.turns import Lane, Turns
from tests.gate_process import REQUEST, http, read_answer, wait_until


class Counted(Turns):
    """Turns that say how long what took one was."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []

    def take(self, lane: Lane, length: int) -> None:
        self.taken.append(length)
        super().take(lane, length)


class Visit:
    """A conversation at a door, held in a thread."""

    def __init__(self) -> None:
        self.judged: list[bytes] = []
        self.raised: list[Exception] = []
        self.peer, self.sock = socket.socketpair()
        self.peer.settimeout(10)
        self._thread = threading.Thread(target=self._converse)
        self.door: Door | None = None
        self._thread.start()
        wait_until(lambda: bool(self.door and self.door.connections), "the visitor is not in")

    def _judge(self, path: str, message: bytes, pause: Pause) -> bytes:
        self.judged.append(message)
        pause()
        return ALLOW

    def _converse(self) -> None:
        self.turns = Counted()
        self.door = Door("/plugins/rediacc-a.sock", self._judge, self.turns)
        try:
            self.door.converse(self.sock)
        except (ClosedError, UnusualError, OSError) as error:
            self.raised.append(error)
        self.sock.close()

    @property
    def limit(self) -> float:
        """Seconds until the connection is cut."""
        assert self.door is not None
        (connection,) = self.door.connections
        return connection.deadline - time.monotonic()

    def watch(self, seconds: float) -> None:
        """What happens `seconds` from now."""
        assert self.door is not None
        self.door.watch(time.monotonic() + seconds)

    def end(self) -> None:
        """Wait for the conversation's end."""
        self._thread.join(10)
        assert not self._thread.is_alive()

    def close(self) -> None:
        """End the conversation from the peer's side."""
        self.peer.close()
        self.end()


@pytest.fixture
def visit() -> Iterator[Visit]:
    visitor = Visit()
    yield visitor
    visitor.close()


def is_cut(visit: Visit) -> bool:
    """Whether the peer reads the end."""
    return visit.peer.recv(1) == b""


def test_an_idle_connection_outlives_dockerds_half_minute_and_then_is_cut(visit: Visit) -> None:
    assert IDLE_LIMIT > 30
    assert visit.limit == pytest.approx(IDLE_LIMIT, abs=5)
    visit.watch(IDLE_LIMIT - 10)
    visit.peer.sendall(http(REQUEST, b"{}"))
    assert read_answer(visit.peer)[2] == ALLOW
    wait_until(lambda: visit.limit > CALL_LIMIT + 5, "the idle time does not begin anew")
    visit.watch(IDLE_LIMIT + 10)
    assert is_cut(visit)


def test_a_call_that_takes_too_long_is_cut_however_busy_the_peer_is(visit: Visit) -> None:
    for part in (b"POST /AuthZ", b"Plugin.Au", b"thZReq "):
        visit.peer.sendall(part)
        time.sleep(0.05)
    assert visit.limit == pytest.approx(CALL_LIMIT, abs=5)
    visit.watch(CALL_LIMIT + 1)
    assert is_cut(visit)
    visit.end()
    assert isinstance(visit.raised[0], ClosedError)


def test_a_body_that_stops_half_way_is_not_judged(visit: Visit) -> None:
    visit.peer.sendall(http(REQUEST, b"{}" * 100)[:-1])
    visit.peer.shutdown(socket.SHUT_WR)
    visit.end()
    assert visit.judged == []


def test_a_message_takes_a_turn_for_each_step_and_no_turn_is_longer_than_one(visit: Visit) -> None:
    for length in (2, LARGE - 2, LARGE + 2):
        visit.peer.sendall(http(REQUEST, b"{}" * (length // 2)))
        assert read_answer(visit.peer)[2] == ALLOW
    assert visit.turns.taken == [2, STEP, STEP, STEP, STEP, STEP]


def test_a_door_that_closes_answers_the_call_under_way(visit: Visit) -> None:
    assert visit.door is not None
    call = http(REQUEST, b"{}")
    visit.peer.sendall(call[:50])
    wait_until(lambda: visit.limit < CALL_LIMIT + 1, "the call has not begun")
    visit.door.close()
    visit.peer.sendall(call[50:])
    _, headers, body = read_answer(visit.peer)
    assert (headers["connection"], body) == ("close", ALLOW)
    assert is_cut(visit)


def test_a_door_that_closes_gives_a_new_connection_a_moment_to_speak(visit: Visit) -> None:
    assert visit.door is not None
    visit.door.close()
    assert visit.limit <= FIRST_CALL_LIMIT
    visit.peer.sendall(http(REQUEST, b"{}"))
    assert read_answer(visit.peer)[2] == ALLOW


def test_a_call_that_arrives_as_the_door_closes_is_answered(visit: Visit) -> None:
    assert visit.door is not None
    visit.peer.sendall(http(REQUEST, b"{}"))
    read_answer(visit.peer)
    visit.peer.sendall(http(REQUEST, b"{}"))
    visit.door.close()
    assert read_answer(visit.peer)[2] == ALLOW

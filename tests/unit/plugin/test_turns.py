"""A repository that floods the gate takes no more than its share from another."""

import base64
import json
from itertools import pairwise

import gevent
import pytest

from plugin.message import STEP, parse
from plugin.turns import OVERHEAD, SLICE, Lane, Turns

SMALL = 2_000
LARGE = 700_000


class Judging:
    """What has been judged, in order."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.order: list[str] = []

    def ask(self, name: str, lane: Lane, length: int) -> None:
        """One request."""
        self.turns.take(lane, length)
        self.order.append(name)

    def flood(self, name: str, lane: Lane, length: int, times: int) -> None:
        """A client that asks again as soon as it is answered."""
        for _ in range(times):
            self.ask(name, lane, length)
            gevent.sleep(0)


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_request_waits_for_one_of_each_flooding_repository_at_most(length: int) -> None:
    judging = Judging()
    lanes = [Lane() for _ in range(15)]
    clients = [
        gevent.spawn(judging.flood, f"flood-{number}", lane, length, 20)
        for number, lane in enumerate(lanes)
        for _ in range(8)
    ]
    gevent.sleep(0)
    quiet = Lane()
    for _ in range(5):
        before = len(judging.order)
        judging.ask("quiet", quiet, SMALL)
        assert len(judging.order) - before <= 1 + 15
        gevent.sleep(0.001)
    gevent.joinall(clients)
    assert judging.order.count("quiet") == 5
    assert len(judging.order) == 15 * 8 * 20 + 5


def longest_wait(order: list[str], quiet: str) -> int:
    """The most requests that were judged between two of `quiet`."""
    places = [place for place, name in enumerate(order) if name == quiet]
    return max(after - before - 1 for before, after in pairwise(places))


def test_many_connections_of_one_repository_take_one_slice_at_a_time() -> None:
    judging = Judging()
    many, one = Lane(), Lane()
    clients = [gevent.spawn(judging.flood, "many", many, SMALL, 50) for _ in range(20)]
    clients.append(gevent.spawn(judging.flood, "one", one, SMALL, 50))
    gevent.joinall(clients)
    assert longest_wait(judging.order, "one") <= SLICE // (OVERHEAD + SMALL) + 1


def test_a_small_request_waits_for_one_large_one_at_most() -> None:
    judging = Judging()
    clients = [
        gevent.spawn(judging.flood, "large", lane, LARGE, 10) for lane in (Lane(), Lane()) for _ in range(4)
    ]
    clients.append(gevent.spawn(judging.flood, "small", Lane(), SMALL, 60))
    gevent.joinall(clients)
    assert longest_wait(judging.order, "small") <= 2


def test_a_small_request_is_judged_between_the_steps_of_a_large_one() -> None:
    judging = Judging()
    lane = Lane()
    body = base64.b64encode(b"x" * LARGE).decode()
    message = json.dumps({"RequestMethod": "POST", "RequestUri": "/x", "RequestBody": body}).encode()

    def large() -> None:
        judging.ask("step", lane, STEP)
        parse(message, lambda: judging.ask("step", lane, STEP))
        judging.order.append("judged")

    client = gevent.spawn(judging.flood, "small", Lane(), SMALL, 20)
    large()
    client.join()
    assert judging.order.count("step") > 5
    assert longest_wait(judging.order[: judging.order.index("judged")], "small") <= 2


def test_nobody_waits_when_nobody_else_asks() -> None:
    turns = Turns()
    lane = Lane()
    for _ in range(3):
        turns.take(lane, LARGE)  # would never return if it needed the event loop to go round
        gevent.sleep(0)

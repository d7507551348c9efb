"""Turns at judging: every repository gets its share of the gate, however much another one asks for.

One process judges for all repositories, and a judgment is not interrupted. Who is next is therefore the only
choice there is, and it falls on the repository that has had least so far. One that comes back from a pause
is owed at most `CREDIT`. After judgments worth `SLICE` the event loop looks at the sockets again, so a
request that arrives meanwhile is next if its repository has had least.

Cost is the length of a message plus `OVERHEAD`: what judging takes grows with it, and no clock is needed.
"""

import heapq
from collections import deque
from itertools import count

from gevent import get_hub
from gevent.hub import Waiter

#: Cost of a request beyond its bytes.
OVERHEAD = 8_000
#: Cost after which the sockets are looked at again: two judgments of ordinary size.
SLICE = 20_000
#: What a repository that was away is owed.
CREDIT = 80_000


class Lane:
    """One repository's share: what it has had, and its requests that wait for their turn."""

    __slots__ = ("used", "waiting")

    def __init__(self) -> None:
        self.used = 0
        self.waiting: deque[tuple[int, Waiter[None]]] = deque()


class Turns:
    """The order in which requests are judged, for the greenlets of one event loop."""

    def __init__(self) -> None:
        self._loop = get_hub().loop
        # Behind the sockets' own events, which have priority 0.
        self._timer = self._loop.timer(0.0, priority=-1)
        self._scheduled = False
        self._lanes: list[tuple[int, int, Lane]] = []
        self._arrivals = count()
        self._round = -1
        self._left = 0
        self._now = 0

    def take(self, lane: Lane, length: int) -> None:
        """Return when the request of `length` bytes from `lane` is to be judged."""
        cost = OVERHEAD + length
        if self._lanes or not self._may_go_on():
            waiter: Waiter[None] = Waiter()
            lane.waiting.append((cost, waiter))
            if len(lane.waiting) == 1:
                self._line_up(lane)
            waiter.get()
        else:
            lane.used = max(lane.used, self._now - CREDIT)
            self._charge(lane, cost)

    def _may_go_on(self) -> bool:
        if self._loop.iteration != self._round:
            self._round = self._loop.iteration
            self._left = SLICE
        return self._left > 0

    def _charge(self, lane: Lane, cost: int) -> None:
        self._now = max(self._now, lane.used)
        self._left -= cost
        lane.used += cost

    def _line_up(self, lane: Lane) -> None:
        lane.used = max(lane.used, self._now - CREDIT)
        heapq.heappush(self._lanes, (lane.used, next(self._arrivals), lane))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._timer.start(self._serve)

    def _serve(self) -> None:
        # Called by the event loop: a waiter's greenlet runs until it waits for something else.
        self._scheduled = False
        self._round, self._left = self._loop.iteration, SLICE
        while self._lanes and self._left > 0:
            _, _, lane = heapq.heappop(self._lanes)
            cost, waiter = lane.waiting.popleft()
            self._charge(lane, cost)
            if lane.waiting:
                self._line_up(lane)
            waiter.switch(None)
        if self._lanes:
            self._schedule()

"""The decision log off the path of requests: what is to be written waits until dockerd has its answer."""

import logging
from collections import deque

import gevent
from gevent.event import Event

from plugin.journal import Entry, Journal

#: Lines that may wait; a client that is denied faster than lines are written loses the oldest of its lines.
LIMIT = 10_000
#: Seconds in which lines gather before they are written.
_PAUSE = 0.02

_logger = logging.getLogger(__name__)


class DeferredJournal(Journal):
    """A journal whose lines are written by a greenlet of their own, `writing`, and at the end by `flush`."""

    _waiting: deque[Entry]

    def begin(self) -> None:
        """Write in the background from now on; before that, lines are written at once."""
        self._waiting = deque()
        self._lost = 0
        self._arrived = Event()
        gevent.spawn(self._work)

    def write(self, line: Entry) -> None:
        """Take `line` and return. Never raises."""
        if not hasattr(self, "_waiting"):
            super().write(line)
            return
        if len(self._waiting) == LIMIT:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append(line)
        self._arrived.set()

    def flush(self) -> None:
        """Write what waits."""
        while self._waiting:
            super().write(self._waiting.popleft())
        if self._lost:
            _logger.warning("%d lines of the decision log were lost: there were too many at once", self._lost)
            self._lost = 0

    def _work(self) -> None:
        while True:
            self._arrived.wait()
            self._arrived.clear()
            gevent.sleep(_PAUSE)
            self.flush()

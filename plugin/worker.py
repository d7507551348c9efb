"""The worker: gunicorn's gevent worker, with a hot path of its own for the three calls that dockerd makes.

What dockerd sends is answered without building a WSGI request (``docs/performance.md`` has the measure);
whatever has another shape goes to gunicorn's parser and the Flask application, one request a connection.
Sockets come and go while it runs: the arbiter, which holds them all, sends them over `orders`.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import time
from functools import partial
from types import FrameType
from typing import Any, Protocol, cast

import gevent
from gevent.event import Event
from gevent.pool import Pool
from gevent.server import StreamServer
from gevent.socket import socket as gevent_socket
from gunicorn.workers.ggevent import GeventWorker

from plugin.connection import CALL_LIMIT, ClosedError, UnusualError
from plugin.door import CONNECTION_LIMIT, Door, Pause
from plugin.turns import Turns

OPEN, CLOSE = b"+", b"-"
#: Signals that must not reach a worker before it can understand them.
HELD_BACK = frozenset({signal.SIGTERM, signal.SIGQUIT, signal.SIGINT})
#: Seconds between two looks at the connections' deadlines.
_WATCH = 1.0
_ORDER_LIMIT = 4096


class Service(Protocol):
    """What the worker needs of the application that gunicorn gives it."""

    def judge(self, path: str, message: bytes, pause: Pause) -> bytes:
        """See `plugin.door.Judge`."""

    def outlets(self) -> contextlib.AbstractContextManager[None]:
        """What is open for as long as the worker serves."""


class Replayed:
    """A socket whose first bytes have been read already: `data`."""

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        self._sock = sock
        self._data = data

    def recv(self, size: int) -> bytes:
        """The bytes that were read before, then the socket's."""
        if not self._data:
            return self._sock.recv(size)
        data, self._data = self._data[:size], self._data[size:]
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class GateWorker(GeventWorker):
    """Answers on every plugin socket until it is told to end, and then loses no call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made before the fork: the arbiter keeps one end, the worker the other.
        self.arbiter_end, self.orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.arbiter_end.setblocking(False)  # a worker that hangs must not hold its master up
        self._stopping: Event | None = None
        self._servers: dict[str, tuple[StreamServer, Door]] = {}
        self._leaving: list[tuple[StreamServer, Door]] = []

    def run(self) -> None:
        """Serve until a signal ends the worker."""
        stopping = self._stopping = Event()
        service = cast(Service, self.app)
        self._turns = Turns()
        for sock in self.sockets:
            self._open(sock)
        gevent.spawn(self._obey)
        gevent.spawn(self._watch)
        with service.outlets():
            # What stands now stands until the end: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            while self.alive:
                self.notify()
                stopping.wait(1.0)
            self._finish()
        # Python's own way out would meet modules that gevent has patched and that are half gone.
        logging.shutdown()
        os._exit(0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: end gracefully."""
        super().handle_exit(sig, frame)
        if self._stopping:
            gevent.spawn(self._stopping.set)

    def init_signals(self) -> None:
        """Take the signals that have come since the fork, too: `plugin.arbiter` held them back."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)

    def _open(self, sock: gevent_socket) -> None:
        path = sock.getsockname()
        if path in self._servers:
            self._close(path)
        door = Door(path, cast(Service, self.app).judge, self._turns)
        server = StreamServer(sock, partial(self._serve, door), spawn=Pool(CONNECTION_LIMIT))
        server.max_accept = 16
        server.start()
        self._servers[path] = server, door

    def _close(self, path: str) -> None:
        server, door = self._servers.pop(path)
        _accept_the_rest(server)
        door.close()
        self._leaving.append((server, door))

    def _serve(self, door: Door, sock: gevent_socket, address: str) -> None:
        try:
            door.converse(sock)
        except (ClosedError, OSError) as error:
            self.log.debug("a connection on %s broke off: %r", door.path, error)
        except UnusualError as unusual:
            with contextlib.suppress(gevent.Timeout), gevent.Timeout(CALL_LIMIT):
                super().handle(sock, cast(gevent_socket, Replayed(sock, unusual.data)), address)
        except Exception:
            self.log.exception("a connection on %s failed", door.path)
        finally:
            sock.close()

    def _obey(self) -> None:
        orders = gevent_socket(fileno=self.orders.detach())
        try:
            while True:
                order, fds, _, _ = socket.recv_fds(orders, _ORDER_LIMIT, 1)
                if not order:
                    return
                if order[:1] == OPEN:
                    self._open(gevent_socket(fileno=fds[0]))
                elif (path := order[1:].decode()) in self._servers:
                    self._close(path)
        except Exception:
            self.log.exception("an order of the master failed; the next worker inherits the sockets")
            self.alive = False

    def _watch(self) -> None:
        while True:
            gevent.sleep(_WATCH)
            now = time.monotonic()
            self._leaving = [(server, door) for server, door in self._leaving if server.pool]
            for _, door in (*self._servers.values(), *self._leaving):
                door.watch(now)

    def _finish(self) -> None:
        """Take in who has connected already, answer what has been asked, and end."""
        for path in tuple(self._servers):
            self._close(path)
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while any(server.pool for server, _ in self._leaving) and time.monotonic() < deadline:
            self.notify()
            gevent.sleep(0.02)


def _accept_the_rest(server: StreamServer) -> None:
    """Stop listening, but let in those who wait at the socket: it may be closed for good after this."""
    server.stop_accepting()
    with contextlib.suppress(OSError):
        while (visitor := server.do_read()) is not None:
            server.do_handle(*visitor)
    pool = server.pool
    server.close()
    server.pool = pool

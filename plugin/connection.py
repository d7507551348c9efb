"""One connection of a repository's dockerd: its calls one after the other, and how long each may take.

`deadline` says until when a connection may stay as it is, idle or in the middle of a call; whoever watches
over all connections calls `cut` when that is past. One watch for all costs less than a timer for each call.

Keep-alive has a race: the client may send while the server closes. `finish` ends a connection without it.
"""

import contextlib
import os
import select
import socket
import time

from gevent.monkey import get_original

from plugin.wire import Call, head_ends, read_call, reply

#: Seconds that a connection may be idle. dockerd closes an idle one after 30: it must be the one that does.
IDLE_LIMIT = 90.0
#: Seconds from the first byte of a call to the last one of its answer.
CALL_LIMIT = 30.0
#: Seconds that a new connection may still take to send its first call when the service ends.
FIRST_CALL_LIMIT = 1.0
#: Seconds that a connection stays open after it was shut for reading.
LINGER = 0.5
#: Bytes that are read only to be forgotten, so that a peer that sends too much reads why it is refused.
DISCARD_LIMIT = 64 * 1024 * 1024
_CHUNK = 16 * 1024
_poll: type[select.poll] = get_original("select", "poll")
_plain_socket: type[socket.socket] = get_original("socket", "socket")
_BODY_CHUNK = 256 * 1024


class ClosedError(Exception):
    """The peer has gone in the middle of a call, or the connection was cut."""


class UnusualError(Exception):
    """The peer speaks another HTTP than dockerd; `data` is what it has sent so far."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


class Connection:
    """The calls and answers on `sock`."""

    __slots__ = ("_data", "_said_last", "_served", "_shut_for_reading", "_sock", "deadline", "idle", "last")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = b""
        self._served = False
        self._said_last = False
        self._shut_for_reading = False
        #: Whether no byte of a call has arrived.
        self.idle = True
        #: Whether the connection ends with the next answer.
        self.last = False
        self.deadline = time.monotonic() + IDLE_LIMIT

    def next_call(self) -> Call | None:
        """The head of the next call; None where there will be none.

        Raises `UnusualError` for what has not dockerd's shape, `ClosedError` and `OSError` for a
        connection that breaks off.
        """
        if self._said_last:
            return None
        if not self._data and not self._await_first_byte():
            return None
        self.deadline = time.monotonic() + CALL_LIMIT
        while not head_ends(self._data):
            self._data += self._receive(_CHUNK)
        call = read_call(self._data)
        if call is None:
            raise UnusualError(self._data)
        self._data = self._data[call.start :]
        return call

    def read(self, call: Call) -> bytes:
        """The body of `call`."""
        body, self._data = self._data[: call.length], self._data[call.length :]
        missing = call.length - len(body)
        if not missing:
            return body
        parts = [body]
        while missing:
            parts.append(self._receive(min(missing, _BODY_CHUNK)))
            missing -= len(parts[-1])
        return b"".join(parts)

    def discard(self, call: Call) -> None:
        """Get past the body of `call` without keeping it; more than `DISCARD_LIMIT` ends the connection."""
        if call.length > DISCARD_LIMIT:
            self.last = True
            return
        missing = call.length - len(self._data)
        self._data = self._data[call.length :]
        while missing > 0:
            missing -= len(self._receive(min(missing, _BODY_CHUNK)))

    def answer(self, body: bytes) -> None:
        """Send the answer to the call."""
        self._said_last = self.last
        data = reply(body, last=self.last)
        sent = self._sock.send(data)
        if sent < len(data):
            self._sock.sendall(data[sent:])
        self._served = True

    def finish(self) -> None:
        """Answer what has been sent, and nothing more.

        A call that is under way is answered with ``Connection: close``. An idle connection is shut for
        reading: what dockerd has sent until then is answered, and after it dockerd cannot send a byte, so
        Go's client repeats the call on another connection (net/http, nothingWrittenError). A new connection
        must not be shut, for Go gives up when its first write on one fails; it has a moment to send.
        """
        self.last = True
        if not self.idle:
            return
        if self._served:
            self._shut_for_reading = True
            self._shut(socket.SHUT_RD)
        else:
            self.deadline = min(self.deadline, time.monotonic() + FIRST_CALL_LIMIT)

    def linger(self) -> None:
        """Keep a connection that was shut for reading until dockerd has noticed, or for `LINGER` seconds.

        Go takes a connection for a call a moment before it writes. If it reads the end in that moment it
        gives the call up (net/http, errServerClosedIdle); only a write that fails makes it try another one.
        A connection that dockerd is using it finds shut at once, and one that it leaves alone so long it
        hardly takes in that very moment.
        """
        if not self._shut_for_reading:
            return
        self.deadline = time.monotonic() + 2 * LINGER
        hung_up = _poll()
        hung_up.register(self._sock.fileno(), 0)
        end = time.monotonic() + LINGER
        while time.monotonic() < end and not hung_up.poll(0):
            time.sleep(0.02)

    def cut(self) -> None:
        """End the connection now."""
        self.deadline = float("inf")
        self._shut(socket.SHUT_RDWR)

    def _await_first_byte(self) -> bool:
        self.idle = True
        self.deadline = time.monotonic() + IDLE_LIMIT
        if self.last:
            self.finish()
        self._data = self._sock.recv(_CHUNK)
        self.idle = False
        return bool(self._data)

    def _receive(self, size: int) -> bytes:
        data = self._sock.recv(size)
        if not data:
            raise ClosedError
        return data

    def _shut(self, how: int) -> None:
        # gevent's own shutdown makes a reader fail, and the call that it was about to read would be lost.
        with contextlib.suppress(OSError), _plain_socket(fileno=os.dup(self._sock.fileno())) as same:
            same.shutdown(how)

"""One repository's door: its plugin socket, who comes in by it, and how much may be inside at once.

Nothing that one door's visitors do takes from another door's: each has its own number of connections and of
large messages, and its own turn at judging.
"""

import os
import socket
import struct
from collections.abc import Callable

from gevent.lock import BoundedSemaphore

from plugin import wire
from plugin.answers import ACTIVATE, ALLOW, NOT_ROOT, TOO_LARGE, answer
from plugin.connection import Connection
from plugin.message import STEP
from plugin.turns import Lane, Turns

#: Connections of one repository at once; more wait until one of them ends.
CONNECTION_LIMIT = 128
#: Bytes of a message that is large: a repository may have `LARGE_LIMIT` of them in memory.
LARGE = 256 * 1024
LARGE_LIMIT = 4
#: `struct ucred` of SO_PEERCRED (unix(7)): pid, uid, gid.
_PEER = struct.Struct("3i")

Pause = Callable[[], None]
#: Answers the authorization message (second) that came in by the socket (first), and calls the third while it
#: reads a large one. It never raises.
Judge = Callable[[str, bytes, Pause], bytes]


def is_trusted(sock: socket.socket) -> bool:
    """Whether the peer is root, or else the user that the gate runs as."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(credentials)[1] in {0, os.geteuid()}


class Door:
    """The conversations on the plugin socket `path`."""

    def __init__(self, path: str, judge: Judge, turns: Turns) -> None:
        self.path = path
        self.connections: set[Connection] = set()
        self._judge = judge
        self._turns = turns
        self._lane = Lane()
        self._large = BoundedSemaphore(LARGE_LIMIT)
        self._closing = False

    def converse(self, sock: socket.socket) -> None:
        """Answer the calls on `sock` until either side ends it.

        Raises `plugin.connection.UnusualError` for a peer that speaks another HTTP than dockerd,
        `ClosedError` and `OSError` for a connection that breaks off.
        """
        connection = Connection(sock)
        connection.last = self._closing
        trusted = is_trusted(sock)
        self.connections.add(connection)
        try:
            while (call := connection.next_call()) is not None:
                connection.answer(self._respond(connection, call, trusted=trusted))
            connection.linger()
        finally:
            self.connections.discard(connection)

    def close(self) -> None:
        """Let each conversation end with the call that is under way."""
        self._closing = True
        for connection in tuple(self.connections):
            connection.finish()

    def watch(self, now: float) -> None:
        """Cut the connections whose time is up at `now`, in seconds of `time.monotonic`."""
        for connection in tuple(self.connections):
            if connection.deadline < now:
                connection.cut()

    def _respond(self, connection: Connection, call: wire.Call, *, trusted: bool) -> bytes:
        if call.route != wire.REQUEST:
            connection.discard(call)
            return ALLOW if call.route == wire.RESPONSE else ACTIVATE
        if call.length > wire.MESSAGE_LIMIT or not trusted:
            connection.discard(call)
            return answer(TOO_LARGE if trusted else NOT_ROOT)
        if call.length <= LARGE:
            return self._judged(connection.read(call))
        with self._large:
            return self._judged(connection.read(call))

    def _judged(self, message: bytes) -> bytes:
        self._turns.take(self._lane, min(len(message), STEP))
        return self._judge(self.path, message, self._pause)

    def _pause(self) -> None:
        self._turns.take(self._lane, STEP)

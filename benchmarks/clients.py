"""Clients that time calls, each a process of its own so that they do not share an interpreter with anyone."""

import array
import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchmarks.messages import Case


@dataclass(frozen=True)
class Times:
    """What clients measured: seconds for each round of calls, and how many there were in a second."""

    seconds: Sequence[float]
    rate: float

    def percentile(self, share: float) -> float:
        """The time, in seconds, that `share` of the rounds did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def exchange(sock: socket.socket, call: bytes) -> bytes:
    """Make one call; the body of its answer."""
    sock.sendall(call)
    data = sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += sock.recv(65536)
    return body


def connect(path: Path) -> socket.socket:
    """A connection to the plugin socket `path`."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def keep_alive(path: Path, case: Case, seconds: float) -> list[float]:
    """Times of one client that keeps its connection."""
    times = []
    with connect(path) as sock:
        end = time.perf_counter() + seconds
        while (before := time.perf_counter()) < end:
            for call in case.calls:
                exchange(sock, call)
            times.append(time.perf_counter() - before)
    return times


def reconnecting(path: Path, case: Case, seconds: float) -> list[float]:
    """Times of one client that connects for each call."""
    times = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        for call in case.calls:
            with connect(path) as sock:
                exchange(sock, call)
        times.append(time.perf_counter() - before)
    return times


def measure(clients: int, work: Callable[[], list[float]]) -> Times:
    """Run `work` in `clients` processes at once."""
    return collect([start(work) for _ in range(clients)])


def start(work: Callable[[], list[float]]) -> tuple[int, int]:
    """Run `work` in a process: its id, and the pipe that its times come by."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(array.array("d", work()).tobytes())
        status = 0
    finally:
        os._exit(status)


def collect(started: Sequence[tuple[int, int]]) -> Times:
    """The times of the processes that `start` has started, when they have ended."""
    times = array.array("d")
    rate = 0.0
    for pid, reader in started:
        with os.fdopen(reader, "rb") as pipe:
            own = array.array("d", pipe.read())
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError("a client failed")
        times.extend(own)
        rate += len(own) / sum(own) if own else 0.0
    return Times(times, rate)


def flood(path: Path, case: Case, seconds: float, connections: int) -> list[float]:
    """Call on several connections at once, each as soon as it is answered; no times."""
    (call,) = case.calls
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(connections):
            sock = stack.enter_context(connect(path))
            sock.sendall(call)
            selector.register(sock, selectors.EVENT_READ)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in selector.select(0.1):
                sock = cast(socket.socket, key.fileobj)
                sock.recv(65536)
                sock.sendall(call)
    return []

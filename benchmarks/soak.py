"""Hours of a machine's life in some minutes: memory and descriptors of the gate must stay flat.

    python -m benchmarks.soak --minutes 5

Clients keep their connections, reconnect, send large bodies and nonsense, while repositories come and go.
"""

import argparse
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import clients
from benchmarks.messages import CREATE, LARGE, PING, call, request
from benchmarks.servers import Gate

STAYING, COMING = 8, 8
#: What memory may vary by, in bytes: caches fill and arenas fragment, but neither goes on.
TOLERANCE = 4 * 2**20
#: What descriptors may vary by: connections that are just there when it is looked.
SPARE = 8

_DENIED = call("AuthZReq", request(b"{}", target="/v1.51/swarm/init"))
_NONSENSE = (b"\0" * 100, PING.calls[0][:-5], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /x HTTP/1.1\r\n")


@dataclass(frozen=True)
class Sample:
    """What the gate has at one moment."""

    memory: int
    descriptors: int


@dataclass(frozen=True)
class Soak:
    """What was seen over the whole time."""

    samples: tuple[Sample, ...]
    calls: int

    @property
    def growth(self) -> int:
        """Bytes of memory that the last quarter has more than the second one: the first is for warming up."""
        quarter = len(self.samples) // 4
        second, last = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        return int(median(each.memory for each in last) - median(each.memory for each in second))

    @property
    def leaked(self) -> int:
        """Descriptors that the last quarter has more than the second one, each at its least."""
        quarter = len(self.samples) // 4
        second, last = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        return min(each.descriptors for each in last) - min(each.descriptors for each in second)


def soak(seconds: float) -> Soak:
    """Let clients loose on a gate for `seconds`, in which it is looked at a hundred times."""
    with Gate(STAYING + COMING) as gate:
        staying = gate.repositories[:STAYING]
        gate.write_register(staying)
        gate.paths = gate.paths[:STAYING]
        gate.serve()
        ended = threading.Event()
        counts = [0] * (STAYING + 1)
        threads = [
            threading.Thread(target=_client, args=(gate.paths[number], number, counts, ended))
            for number in range(STAYING)
        ]
        threads.append(threading.Thread(target=_come_and_go, args=(gate, ended)))
        for thread in threads:
            thread.start()
        samples = []
        for _ in range(100):
            time.sleep(seconds / 100)
            samples.append(Sample(gate.memory(), sum(map(_descriptors, gate.pids))))
        ended.set()
        for thread in threads:
            thread.join()
    return Soak(tuple(samples), sum(counts))


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _client(path: Path, number: int, counts: list[int], ended: threading.Event) -> None:
    habits: list[Callable[[Path], None]] = [_keep_alive, _reconnect, _large, _talk_nonsense]
    while not ended.is_set():
        habits[number % len(habits)](path)
        counts[number] += 1
        time.sleep(0.001)


def _keep_alive(path: Path) -> None:
    with clients.connect(path) as sock:
        for _ in range(20):
            for each in (*CREATE.calls, PING.calls[0], _DENIED):
                clients.exchange(sock, each)


def _reconnect(path: Path) -> None:
    with clients.connect(path) as sock:
        clients.exchange(sock, PING.calls[0])


def _large(path: Path) -> None:
    with clients.connect(path) as sock:
        clients.exchange(sock, LARGE.calls[0])


def _talk_nonsense(path: Path) -> None:
    for data in _NONSENSE:
        with clients.connect(path) as sock, contextlib.suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass


def _come_and_go(gate: Gate, ended: threading.Event) -> None:
    staying, coming = gate.repositories[:STAYING], gate.repositories[STAYING:]
    turn = 0
    while not ended.wait(0.3):
        turn += 1
        there = coming[: turn % (COMING + 1)]
        gate.write_register([*staying, *there])


def main() -> None:
    """Soak the gate and say whether it stayed flat; exit status 1 where it did not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    seen = soak(parser.parse_args().minutes * 60)
    first, last = seen.samples[0], seen.samples[-1]
    print(f"{seen.calls:,} conversations")
    print(f"memory: {first.memory / 2**20:.1f} MiB at first, {last.memory / 2**20:.1f} MiB at last")
    print(
        f"from the second quarter to the last: {seen.growth / 2**20:+.2f} MiB, {seen.leaked:+d} descriptors"
    )
    flat = seen.growth < TOLERANCE and seen.leaked <= SPARE
    print("flat" if flat else "NOT flat")
    sys.exit(0 if flat else 1)


if __name__ == "__main__":
    main()

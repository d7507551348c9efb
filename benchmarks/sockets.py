"""The plugin socket alone: the gate beside the bare socket loop, and one repository beside fifteen others."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import clients
from benchmarks.clients import Times
from benchmarks.messages import CASES, CREATE, CREATE_REQUEST, LARGE, RESPONSE, Case
from benchmarks.report import Report, microseconds
from benchmarks.servers import Bare, Gate, Server

_COLUMNS = ["calls", "server", "p50", "p99", "per second", "CPU per round"]


@dataclass(frozen=True)
class _Way:
    """How clients call: how many they are, and what each does."""

    name: str
    clients: int
    work: Callable[[Path, Case, float], list[float]]


WAYS = (
    _Way("one client, keep-alive", 1, clients.keep_alive),
    _Way("one client, reconnecting", 1, clients.reconnecting),
    _Way("16 clients, keep-alive", 16, clients.keep_alive),
)


class _Measured:
    """The times of one server, gathered over several turns so that what disturbs the machine meets both."""

    def __init__(self, name: str, server: Server, path: Path) -> None:
        self.name = name
        self._server = server
        self._path = path
        self._parts: list[Times] = []
        self._cpu = 0.0

    def measure(self, way: _Way, case: Case, seconds: float) -> None:
        before = self._server.cpu()
        self._parts.append(clients.measure(way.clients, partial(way.work, self._path, case, seconds)))
        self._cpu += self._server.cpu() - before

    @property
    def times(self) -> Times:
        seconds = [each for part in self._parts for each in part.seconds]
        return Times(seconds, sum(part.rate for part in self._parts) / len(self._parts))

    def row(self, case: Case) -> list[str]:
        times = self.times
        return [
            case.name, self.name, microseconds(times.percentile(0.5)), microseconds(times.percentile(0.99)),
            f"{times.rate:,.0f}", microseconds(self._cpu / len(times.seconds)),
        ]  # fmt: skip


def compare(report: Report, seconds: float, turns: int) -> None:
    """Every call in every way, the gate and the bare loops in turn; each turn takes `seconds`."""
    with Bare() as bare, Bare("--parse-all") as thorough, Gate() as gate:
        gate.serve()
        servers = (
            ("loop", bare, bare.path),
            ("loop, parses all", thorough, thorough.path),
            ("gate", gate, gate.path),
        )
        _warm_up(*(path for _, _, path in servers))
        for way in WAYS:
            rows = []
            for case in CASES:
                # The two loops differ in what they do with a response only.
                compared = [
                    _Measured(*each)
                    for each in servers
                    if case in (CREATE, RESPONSE) or each[1] is not thorough
                ]
                for _ in range(turns):
                    for measured in compared:
                        measured.measure(way, case, seconds)
                rows += [measured.row(case) for measured in compared]
                if way is WAYS[0]:
                    _targets(report, case, {measured.name: measured.times for measured in compared})
            report.table(f"Plugin socket, {way.name}", _COLUMNS, rows)


def _targets(report: Report, case: Case, times: dict[str, Times]) -> None:
    p50 = {name: each.percentile(0.5) for name, each in times.items()}
    ratio = p50["gate"] / p50["loop"]
    if case is CREATE:
        report.target("create, both calls: p50 to the loop's", ratio, 2.0)
        report.target("the same to the loop's that parses both", p50["gate"] / p50["loop, parses all"], 2.0)
        report.target("create, both calls: p99 to p50", times["gate"].percentile(0.99) / p50["gate"], 3.0)
    if case is LARGE:
        report.target("500 KB body: p50 to the loop's, which parses it", ratio, 1.3)


def _warm_up(*paths: Path) -> None:
    for path in paths:
        for case in CASES:
            clients.keep_alive(path, case, 0.1)


FLOODING = 15
_CONNECTIONS = 4


def share(report: Report, seconds: float) -> None:
    """The sixteenth repository's p50 while fifteen flood the gate, against sixteen times its p50 alone."""
    rows = []
    with Gate(count=FLOODING + 1) as gate:
        gate.serve()
        for name, flood in (("nobody", None), ("create 2 KB", CREATE_REQUEST), ("create 500 KB", LARGE)):
            times = _beside(gate, flood, seconds)
            if flood is None:
                alone = times.percentile(0.5)
            else:
                fair = (FLOODING + 1) * alone
                report.target(f"16th repository's p50 to its fair share, 15 flood with {name}",
                              times.percentile(0.5) / fair, 1.0)  # fmt: skip
            rows.append(
                [name, microseconds(times.percentile(0.5)), microseconds(times.percentile(0.99)),
                 microseconds((FLOODING + 1) * alone)]
            )  # fmt: skip
    report.table(
        f"One repository beside {FLOODING} that flood over {_CONNECTIONS} connections each",
        ["they flood with", "p50", "p99", "fair share of p50"],
        rows,
    )


def _beside(gate: Gate, flood: Case | None, seconds: float) -> Times:
    """The last repository's times, while each of the others calls as fast as it can."""
    flooding = []
    if flood:
        flooding = [
            clients.start(partial(clients.flood, path, flood, seconds + 1, _CONNECTIONS))
            for path in gate.paths[:FLOODING]
        ]
        time.sleep(0.5)
    times = clients.measure(1, partial(clients.keep_alive, gate.paths[-1], CREATE, seconds))
    if flooding:
        clients.collect(flooding)
    return times

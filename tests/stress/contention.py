"""Many processes grant and revoke two exclusive GPUs at random, under three names each.

* Never two holders: who is granted a GPU plants a witness that only one can plant.
* No lost update: after each of its changes a process finds its own grants as it left them, and the audit
  log, played back, gives the file.
* No torn read: a reader that spins all along only ever sees a whole file, in which no GPU has two holders.
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from grants_cli import audit
from grants_cli.changes import Terms
from grants_cli.devices import Devices
from grants_cli.granting import give, take
from grants_cli.grants import Grants
from grants_cli.register import Repository
from grants_cli.store import GrantStore, read_grants
from spec.errors import BusyError, RefusedError
from spec.layout import Layout
from tests.stress.machine import ALIASES, make

_LEAST_CHANGES = 10


@dataclass
class Outcome:
    """What happened, all processes together."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    #: How long a change took, in seconds, waiting for the lock included.
    durations: list[float] = field(default_factory=list)


class _Tenant:
    """One process's repository, and what it must find in the file."""

    def __init__(self, layout: Layout, me: Repository, witnesses: Path) -> None:
        self._layout, self._me, self._witnesses = layout, me, witnesses
        self._store = GrantStore(layout)
        self._machine = Devices(layout)
        self._held: set[str] = set()
        self.outcome = Outcome()

    def act(self) -> None:
        gpu = random.randrange(len(ALIASES))
        names = tuple(random.sample(ALIASES[gpu], random.randint(1, 3)))
        wish = self._grant if random.random() < 0.5 else self._revoke
        started = time.perf_counter()
        try:
            wish(gpu, names)
        except RefusedError:
            self.outcome.counts["refused"] += 1
        except BusyError:
            self.outcome.counts["busy"] += 1
        self.outcome.durations.append(time.perf_counter() - started)
        self._compare()

    def _grant(self, gpu: int, names: tuple[str, ...]) -> None:
        with self._store.transaction() as transaction:
            change = give(transaction, self._me, names, Terms("stress", exclusive=True), self._machine)
            if change.changed and not self._held & set(ALIASES[gpu]):
                self._plant(gpu)
        self._held |= set(names)
        self.outcome.counts["granted" if change.changed else "unchanged"] += 1

    def _revoke(self, gpu: int, names: tuple[str, ...]) -> None:
        with self._store.transaction() as transaction:
            left = (self._held - set(names)) & set(ALIASES[gpu])
            if self._held & set(ALIASES[gpu]) and not left:
                self._witness(gpu).unlink()
            change = take(transaction, self._me.guid, names)
        self._held -= set(names)
        self.outcome.counts["revoked" if change.changed else "unchanged"] += 1

    def _plant(self, gpu: int) -> None:
        try:
            os.close(os.open(self._witness(gpu), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            self.outcome.problems.append(f"GPU {gpu} has two holders, {self._me.ref} is the second")

    def _witness(self, gpu: int) -> Path:
        return self._witnesses / str(gpu)

    def _compare(self) -> None:
        found = {grant.device for grant in read_grants(self._layout).of(self._me.guid)}
        if found != self._held:
            self.outcome.problems.append(f"{self._me.ref} lost an update: {found} instead of {self._held}")


def _work(layout: Layout, me: Repository, witnesses: Path, seconds: float, results: "Queue[Any]") -> None:
    random.seed()
    tenant = _Tenant(layout, me, witnesses)
    end = time.monotonic() + seconds
    try:
        # On a computer that is busy the time alone may be over before anything has happened.
        while time.monotonic() < end or len(tenant.outcome.durations) < _LEAST_CHANGES:
            tenant.act()
    except Exception as error:
        tenant.outcome.problems.append(f"{me.ref}: {type(error).__name__}: {error}")
    results.put(tenant.outcome)


def _read(layout: Layout, stop: Event, results: "Queue[Any]") -> None:
    outcome = Outcome()
    try:
        while not stop.is_set():
            outcome.counts["reads"] += 1
            problem = _two_holders(read_grants(layout))
            if problem:
                outcome.problems.append(problem)
    except Exception as error:
        outcome.problems.append(f"a reader saw {type(error).__name__}: {error}")
    results.put(outcome)


def _two_holders(grants: Grants) -> str:
    for aliases in ALIASES:
        holders = [
            guid for guid, own in grants.by_guid.items() if {each.device for each in own} & set(aliases)
        ]
        if len(holders) > 1:
            return f"a reader saw {len(holders)} holders of {aliases[0]}"
    return ""


def _replayed(layout: Layout) -> dict[str, object]:
    """The grants that the audit log says there are."""
    state: dict[str, object] = {}
    for line in audit.read(layout.audit_log):
        for change in line.get("grants", ()):  # type: ignore[attr-defined]
            state[change["guid"]] = change["after"]
            if not change["after"]:
                del state[change["guid"]]
    return state


def run(root: Path, processes: int, seconds: float) -> Outcome:
    """Let `processes` compete for `seconds` below `root`, with one reader beside them."""
    layout, tenants = make(root / "machine", processes)
    witnesses = root / "witnesses"
    witnesses.mkdir()
    context = multiprocessing.get_context("fork")
    results: Queue[Any] = context.Queue()
    stop = context.Event()
    reader = context.Process(target=_read, args=(layout, stop, results))
    workers = [
        context.Process(target=_work, args=(layout, tenant, witnesses, seconds, results))
        for tenant in tenants
    ]
    for process in (reader, *workers):
        process.start()
    total = Outcome()
    for number in range(processes + 1):
        if number == processes:
            stop.set()
        outcome: Outcome = results.get(timeout=seconds + 120)
        total.counts += outcome.counts
        total.problems += outcome.problems
        total.durations += outcome.durations
    for process in (reader, *workers):
        process.join()
    if _replayed(layout) != read_grants(layout).to_records():
        total.problems.append("the audit log, played back, is not what the file says")
    return total


def main() -> None:
    """Run it and print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        outcome = run(Path(root), options.processes, options.seconds)
    durations = sorted(outcome.durations)
    print(", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items())))
    if durations:
        middle, late = durations[len(durations) // 2], durations[int(len(durations) * 0.99)]
        print(
            f"a change took {middle * 1000:.0f} ms in the middle, {late * 1000:.0f} ms at the 99th percentile"
        )
    for problem in outcome.problems[:20]:
        print(f"PROBLEM: {problem}")
    raise SystemExit(bool(outcome.problems))


if __name__ == "__main__":
    main()

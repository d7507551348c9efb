"""Many machines at once: each one's answer as soon as it comes, and what became of all of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Generic, TypeVar

from grants_cli.remote.errors import MachinesFailedError
from grants_cli.remote.machines import Machine
from spec.errors import RediaccError

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one machine's part: a value or an error, after so many seconds."""

    machine: Machine
    seconds: float
    value: T | None = None
    error: RediaccError | None = None


def each(machines: Sequence[Machine], work: Callable[[Machine], T]) -> Iterator[Outcome[T]]:
    """Do `work` for all `machines` at the same time; yield outcomes as they come, the quickest first.

    One thread for each machine, so that no number of dead ones holds up another. `work` limits its own time.
    """
    if not machines:
        return

    def one(machine: Machine) -> Outcome[T]:
        begun = time.monotonic()
        try:
            value = work(machine)
        except RediaccError as error:
            return Outcome(machine, time.monotonic() - begun, error=error)
        return Outcome(machine, time.monotonic() - begun, value)

    with ThreadPoolExecutor(len(machines)) as pool:
        for future in as_completed([pool.submit(one, machine) for machine in machines]):
            yield future.result()


def failure(outcomes: Sequence[Outcome[T]]) -> RediaccError | None:
    """The error that stands for the failed ones among `outcomes`: its own where one machine was asked.

    The exit status is what all failures share, and 14 where they differ.
    """
    failed = [outcome for outcome in outcomes if outcome.error]
    if not failed:
        return None
    if len(outcomes) == 1:
        return failed[0].error
    names = ", ".join(sorted(outcome.machine.name for outcome in failed))
    error = MachinesFailedError(
        f"{len(failed)} of {len(outcomes)} machines failed: {names}", "the others' answers are complete"
    )
    statuses = {outcome.error.exit_status for outcome in failed if outcome.error}
    if len(statuses) == 1:
        error.exit_status = statuses.pop()
    return error

"""Running the steps of a set-up: each is planned against the machine as it is, shown, then made.

* A step reads, and returns what differs. Nothing differs: nothing is done. So a set-up that was interrupted
  anywhere is finished by the next one.
* A step that fails is reported and the others still run: an offline machine gets everything but the download.
* In a dry run nothing is made. A step whose outcome depends on an earlier one that was not made says so.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from machine_setup.setup.changes import Change
from spec.errors import CommandFailedError, RediaccError


@dataclass(frozen=True)
class Plan:
    """What a step would change, in order; what it found, in a sentence; and what an operator should know."""

    changes: Sequence[Change] = ()
    found: str = ""
    warnings: Sequence[str] = ()
    advice: str = ""  # what an operator does when one of the changes fails


ContextT = TypeVar("ContextT")
ContextT_contra = TypeVar("ContextT_contra", contravariant=True)


class Step(Protocol[ContextT_contra]):
    """One step of a set-up."""

    @property
    def name(self) -> str:
        """What it is about, in a few words."""
        ...

    def plan(self, context: ContextT_contra) -> Plan:
        """What differs now. Reads only. Raises `RediaccError`."""
        ...


class Moment(StrEnum):
    """When a watcher of a set-up is called."""

    STARTS = "starts"
    CHANGES = "changes"
    CHANGED = "changed"
    ENDS = "ends"


@dataclass(frozen=True)
class Made:
    """A change that was made, or would be in a dry run, with the difference that it meant."""

    change: Change
    difference: str


@dataclass
class Outcome:
    """How a step went: the changes it made (or would make), the time it took, and why it failed if it did."""

    name: str
    found: str = ""
    changes: list[Made] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error: RediaccError | None = None


Watcher = Callable[[Moment, Outcome, Made | None], None]


@dataclass(frozen=True)
class Runner(Generic[ContextT]):
    """Runs steps over one context and tells `watch` about each moment."""

    context: ContextT
    watch: Watcher
    dry_run: bool = False

    def run(self, steps: Sequence[Step[ContextT]]) -> list[Outcome]:
        """Run `steps` in order. A failing step ends itself, not the set-up."""
        return [self._run(step) for step in steps]

    def _run(self, step: Step[ContextT]) -> Outcome:
        outcome = Outcome(step.name)
        began = time.monotonic()
        self.watch(Moment.STARTS, outcome, None)
        plan = Plan()
        try:
            plan = step.plan(self.context)
            outcome.found = plan.found
            outcome.warnings = list(plan.warnings)
            # All differences first: one change may do another's work too.
            for made in [Made(change, change.difference()) for change in plan.changes]:
                self.watch(Moment.CHANGES, outcome, made)
                if not self.dry_run:
                    made.change.apply()
                outcome.changes.append(made)
                self.watch(Moment.CHANGED, outcome, made)
        except RediaccError as error:
            error.hint = plan.advice or error.hint
            outcome.error = error
        except OSError as error:
            outcome.error = CommandFailedError(
                f"{error.filename or step.name}: {error.strerror or error}",
                "set-up needs root and a writable disk",
            )
        outcome.seconds = time.monotonic() - began
        self.watch(Moment.ENDS, outcome, None)
        return outcome

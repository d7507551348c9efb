"""A whole set-up: its steps in their order, one set-up at a time, and the report at its end."""

import contextlib
from collections.abc import Iterator, Sequence

from grants_cli.inventory import Inventory
from grants_cli.lock import machine_lock
from grants_cli.times import utc_now
from machine_setup.detect.machine import Machine
from machine_setup.programs import Programs
from machine_setup.setup.changes import RemoveFile, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.detection import DetectionStep
from machine_setup.setup.keep_current import KeepCurrentStep
from machine_setup.setup.leftovers import LeftoversStep
from machine_setup.setup.nvidia_spec import NvidiaSpecStep
from machine_setup.setup.options import ToolkitMode
from machine_setup.setup.persistence import PersistenceStep
from machine_setup.setup.record import GrantsStep, InventoryStep, take_inventory
from machine_setup.setup.rediacc_specs import RediaccSpecsStep
from machine_setup.setup.refresh import RefreshStep, ShadowStep
from machine_setup.setup.steps import Made, Moment, Outcome, Runner, Step
from machine_setup.setup.summary import Progress, show_summary, what_next
from machine_setup.setup.toolkit import ToolkitStep
from machine_setup.setup.units import UnitsStep
from spec.console import emit, wants_json
from spec.errors import RediaccError
from spec.layout import Layout

# In this order: a step may rest on those before it. The machine is seen first, and recorded last.
STEPS: tuple[Step[Context], ...] = (
    LeftoversStep(),
    DetectionStep(),
    ToolkitStep(),
    NvidiaSpecStep(),
    RefreshStep(),
    ShadowStep(),
    PersistenceStep(),
    RediaccSpecsStep(),
    KeepCurrentStep(),
    UnitsStep(),
    InventoryStep(),
    GrantsStep(),
)


def set_up(where: Layout, toolkit: ToolkitMode, repository: str, *, dry_run: bool) -> None:
    """Set the machine up and report it.

    Raises `BusyError` while another set-up runs, and after the last step one error for all that failed.
    """
    context = Context(
        where,
        Programs.of(where.root),
        Machine(),
        toolkit,
        repository.rstrip("/"),
        dry_run,
    )
    with _alone(where, dry_run=dry_run):
        outcomes = run_steps(context, quiet=wants_json())
        _report(context, outcomes, context.inventory or take_inventory(context))


def run_steps(context: Context, *, quiet: bool, steps: Sequence[Step[Context]] = STEPS) -> list[Outcome]:
    """Run `steps` with their progress on stderr, and keep in `context` what each leaves word of."""
    progress = Progress(context, len(steps), quiet=quiet)

    def watch(moment: Moment, outcome: Outcome, made: Made | None) -> None:
        progress(moment, outcome, made)
        if moment is Moment.CHANGED and made is not None and context.dry_run:
            if isinstance(made.change, WriteFile):
                context.would_be[made.change.path] = made.change.content
            elif isinstance(made.change, RemoveFile):
                context.would_be[made.change.path] = None
        elif moment is Moment.ENDS:
            context.warnings += outcome.warnings
            if outcome.error is not None:
                context.warnings.append(f"{outcome.name}: {outcome.error.message}. {outcome.error.hint}")

    return Runner(context, watch, context.dry_run).run(steps)


@contextlib.contextmanager
def _alone(where: Layout, *, dry_run: bool) -> Iterator[None]:
    """Hold the set-up's lock; a dry run changes nothing, not even that."""
    if dry_run:
        yield
        return
    with machine_lock(where.setup_lock, utc_now(), 0, "setting up this machine"):
        yield


def _report(context: Context, outcomes: Sequence[Outcome], inventory: Inventory) -> None:
    warnings = [warning for outcome in outcomes for warning in outcome.warnings]
    next_steps = what_next(inventory, warnings, outcomes)
    failed = [(outcome.name, outcome.error) for outcome in outcomes if outcome.error is not None]
    if not (failed and wants_json()):
        data = {
            "dryRun": context.dry_run,
            "changed": any(outcome.changes for outcome in outcomes),
            "steps": [_step_record(outcome) for outcome in outcomes],
            "inventory": inventory.to_document(),
            "next": next_steps,
        }
        emit(data, lambda: show_summary(inventory, next_steps))
    if failed:
        raise _one_error(failed)


def _step_record(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.name,
        "found": outcome.found,
        "changes": [{"what": str(made.change), "difference": made.difference} for made in outcome.changes],
        "warnings": outcome.warnings,
        "seconds": round(outcome.seconds, 3),
    }


def _one_error(failed: Sequence[tuple[str, RediaccError]]) -> RediaccError:
    """All failures as one error, of the first one's class: its exit status says what kind it was."""
    _, first = failed[0]
    message = "; ".join(f"{name}: {error.message}" for name, error in failed)
    return type(first)(f"set-up could not do everything. {message}", first.hint)

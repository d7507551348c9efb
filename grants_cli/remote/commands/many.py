"""What commands over several machines share: which ones, and answers shown as they come."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from grants_cli.remote import complete, fleet, machines, views
from grants_cli.remote.fleet import Outcome
from grants_cli.remote.machines import Machine
from spec.console import fail, wants_json
from spec.errors import UsageError

T = TypeVar("T")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def machines_argument(function: FunctionT) -> FunctionT:
    """Add ``[MACHINE]...`` and ``--all``."""
    function = click.option("--all", "everywhere", is_flag=True, help="Every machine, at the same time.")(
        function
    )
    return click.argument("names", metavar="[MACHINE]...", nargs=-1, shell_complete=complete.machine)(
        function
    )


def timeout_option(seconds: float | None) -> Callable[[FunctionT], FunctionT]:
    """Add ``--timeout``, `seconds` unless given."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help="How long each machine may take.",
    )


def chosen(names: Sequence[str], everywhere: bool) -> list[Machine]:
    """The machines that the command line means; the only one there is where it names none."""
    known = machines.read()
    if names and everywhere:
        raise UsageError("machines are named, and --all says all of them", "leave one of the two out")
    if names:
        return [known.get(name) for name in dict.fromkeys(names)]
    every = list(known.all())
    if everywhere or len(every) == 1:
        return every
    raise UsageError("which machine?", f"name it, or --all: {', '.join(machine.name for machine in every)}")


def on_each(
    targets: Sequence[Machine], work: Callable[[Machine], T], show: Callable[[Machine, T], None]
) -> None:
    """Do `work` on all `targets` at once and `show` each answer when it is there.

    Several machines end with a table of what became of each; JSON is one object, its ``data`` a list in
    the order of the machines, complete also when some failed. Ends with the status of `fleet.failure`.
    """
    done: list[Outcome[T]] = []
    for outcome in fleet.each(targets, work):
        done.append(outcome)
        if outcome.error is None and not wants_json():
            show(outcome.machine, outcome.value)  # type: ignore[arg-type] # a value where there is no error
    error = fleet.failure(done)
    if len(targets) == 1:
        if error:
            raise error
        if wants_json():
            click.echo(json.dumps({"ok": True, "data": done[0].value}, ensure_ascii=False))
        return
    if wants_json():
        done.sort(key=lambda outcome: outcome.machine)
        answer: dict[str, object] = {"ok": error is None, "data": [_record(outcome) for outcome in done]}
        if error:
            answer["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        views.outcomes([Outcome(o.machine, o.seconds, error=o.error) for o in done])
        if error:
            fail(error)
    if error:
        click.get_current_context().exit(error.exit_status)


def _record(outcome: Outcome[T]) -> dict[str, object]:
    record: dict[str, object] = {"machine": outcome.machine.name, "ok": outcome.error is None}
    if outcome.error:
        record["error"] = {
            "code": outcome.error.code,
            "message": outcome.error.message,
            "hint": outcome.error.hint,
            "status": outcome.error.exit_status,
        }
    else:
        record["data"] = outcome.value
    return record

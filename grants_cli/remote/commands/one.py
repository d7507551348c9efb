"""What commands on one repository share: finding its machine, and asking there."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from grants_cli.remote import complete, locate, machines, ssh
from grants_cli.remote.errors import AnsweredError
from grants_cli.remote.machines import Machine, Machines
from grants_cli.remote.renet import Call, ask
from grants_cli.remote.target import Target
from spec.console import say
from spec.errors import NotFoundError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def ref_argument(function: FunctionT) -> FunctionT:
    """Add ``REF`` and ``--machine``."""
    function = click.option(
        "-m",
        "--machine",
        "on",
        default="",
        metavar="MACHINE",
        help="The same as @MACHINE.",
        shell_complete=complete.machine,
    )(function)
    return click.argument("ref", metavar="REF", shell_complete=complete.repository)(function)


def ask_about(target: Target, on: str, call: Call, timeout: float | None) -> tuple[Machine, object]:
    """The machine that `target` (a repository that exists) is on, and what its `renet` answers `call` with.

    `renet`'s notes are passed on to stderr. Raises what `locate.machine_of` and `renet.ask` raise, and
    `ContradictionError` when the repository is on another machine than the one named.
    """
    known = machines.read()
    machine = locate.machine_of(target, known, on, call.changes)
    try:
        return machine, ask(machine, call, timeout, pass_on if call.changes else None)
    except AnsweredError as error:
        if error.exit_status == NotFoundError.exit_status and (target.machine or on):
            raise _elsewhere(target, machine, known) or error from None
        raise


def pass_on(line: str) -> None:
    """Tell what the machine tells; not what concerns nobody."""
    if not ssh.is_noise(line):
        say(line)


def _elsewhere(target: Target, machine: Machine, known: Machines) -> Exception | None:
    if str(target.ref) in {repository.ref for repository in locate.repositories(machine)}:
        return None
    return locate.contradicted(target, machine, known)

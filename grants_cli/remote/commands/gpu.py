"""``rdc machine gpu list`` and ``rdc gpu list``: the cards of machines, and who may use them now."""

import json
import sys
from datetime import UTC, datetime

import click

from grants_cli.remote import answers, cache, machines, views
from grants_cli.remote.answers import Status
from grants_cli.remote.commands import many
from grants_cli.remote.machines import Machine
from grants_cli.remote.renet import Call, ask, ask_raw
from spec.console import output_option, wants_json

_INVENTORY = Call(("gpu", "list"))


def status_of(machine: Machine, timeout: float | None) -> Status:
    """What `machine` has and who may use it; remembered for completion. Raises what `ask` raises."""
    status = answers.status(ask(machine, Call(("gpu", "status")), timeout))
    cache.remember(machine.name, devices=status.devices)
    return status


def _record(machine: Machine, timeout: float | None) -> object:
    return json.loads(ask_raw(machine, _INVENTORY, timeout))


def _list(targets: list[Machine], timeout: float | None) -> None:
    if wants_json():
        many.on_each(targets, lambda machine: _record(machine, timeout), lambda _machine, _data: None)
        return
    shown = 0

    def show(machine: Machine, status: Status) -> None:
        nonlocal shown
        if shown:
            click.echo()
        shown += 1
        views.gpus(machine.name, status, datetime.now(UTC))
        sys.stdout.flush()

    many.on_each(targets, lambda machine: status_of(machine, timeout), show)


@click.command("list")
@many.machines_argument
@many.timeout_option(30)
@output_option
def list_command(names: tuple[str, ...], everywhere: bool, timeout: float | None) -> None:
    """Show the GPUs of machines, every device name that can be granted, and the grants that stand now.

    With -o json, one machine's inventory comes exactly as the machine recorded it.

    \b
    rdc machine gpu list lab
    rdc machine gpu list lab -o json
    rdc machine gpu list lab attic
    """
    targets = many.chosen(names, everywhere)
    if wants_json() and len(targets) == 1 and not everywhere:
        sys.stdout.buffer.write(ask_raw(targets[0], _INVENTORY, timeout))
        return
    _list(targets, timeout)


@click.command("list")
@many.timeout_option(30)
@output_option
def list_everywhere(timeout: float | None) -> None:
    """Show the GPUs, devices and grants of all machines; the quickest to answer comes first."""
    _list(list(machines.read().all()), timeout)

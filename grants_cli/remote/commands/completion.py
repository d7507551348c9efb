"""``rdc completion``: the shell's half of completion, and the fetching of names for ours."""

import click

from grants_cli.remote import cache, fleet, locate, machines
from grants_cli.remote.commands.gpu import status_of
from grants_cli.remote.machines import Machine
from spec.completion import completion_command

completion = completion_command("rdc")


@click.command(cache.REFRESH, hidden=True)
def refresh() -> None:
    """Ask all machines for the names that completion offers."""
    for _ in fleet.each(machines.read().all(), _names):
        pass


def _names(machine: Machine) -> None:
    locate.repositories(machine)
    status_of(machine, locate.TIMEOUT)

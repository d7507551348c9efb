"""``renet repo list``: the repositories of the machine."""

import click

from grants_cli.store import GrantStore
from grants_cli.times import utc_now
from machine_setup.repository import daemon
from machine_setup.repository.commands.options import described
from spec.console import emit, layout, output_option, print_table


@click.command("list")
@output_option
def list_command() -> None:
    """Show the repositories of this machine, whether their daemons run, and what they are granted.

    \b
    renet repo list -o json
    """
    store, now = GrantStore(layout()), utc_now()
    grants = store.read()
    found = [
        (repository, daemon.find(repository) is not None, sorted(grants.live(repository.guid, now)))
        for repository in store.read_register().repositories
    ]

    def show() -> None:
        print_table(
            ("REPOSITORY", "DAEMON", "MADE BY", "NETWORK", "SOCKET", "DEVICES"),
            [
                (
                    str(repository.ref),
                    "running" if running else "stopped",
                    "renet" if repository.managed else "adopted",
                    repository.subnet or "host",
                    str(repository.socket),
                    ", ".join(devices) or "-",
                )
                for repository, running, devices in found
            ],
        )

    emit(
        [
            {**described(repository), "running": running, "devices": devices}
            for repository, running, devices in found
        ],
        show,
    )

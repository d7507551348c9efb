"""``rdc machine add|list|remove``: the address book."""

from dataclasses import asdict

import click

from grants_cli.remote import complete, machines
from spec.console import emit, output_option, print_table
from spec.errors import RefusedError, UsageError


@click.command("add")
@click.argument("name")
@click.option(
    "--host",
    required=True,
    metavar="[USER@]HOST",
    help="As OpenSSH takes it; aliases of your ssh config too.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="The port, unless your ssh config says it.")
@output_option
def add(name: str, host: str, port: int | None) -> None:
    """Remember the machine NAME. Nothing is sent to it.

    \b
    rdc machine add lab --host ops@lab.example.org
    rdc machine add lab --host lab --port 2222
    """
    new = machines.machine(name, host, port)
    with machines.lock():
        known = machines.read()
        old = known.by_name.get(name)
        if old not in {None, new}:
            raise RefusedError(
                f"there is a machine {name} already, at {old.destination if old else ''}",
                f"rdc machine remove {name}",
            )
        machines.write(known.with_machine(new))
    emit(asdict(new), lambda: click.echo(f"added {name}; next: rdc machine setup {name}"))


@click.command("list")
@output_option
def list_command() -> None:
    """Show the machines that rdc knows. None is asked anything."""
    known = [one for one in machines.read().all() if not one.is_local]
    emit(
        [asdict(one) for one in known],
        lambda: (
            print_table(
                ("MACHINE", "HOST", "PORT"), [(m.name, m.destination, str(m.port or "-")) for m in known]
            )
            if known
            else click.echo("no machines yet: rdc machine add NAME --host [user@]host; this one is 'local'")
        ),
    )


@click.command("remove")
@click.argument("names", metavar="MACHINE...", nargs=-1, required=True, shell_complete=complete.machine)
@output_option
def remove(names: tuple[str, ...]) -> None:
    """Forget machines. Nothing changes on them."""
    with machines.lock():
        known = machines.read()
        for name in names:
            if known.get(name).is_local:
                raise UsageError("'local' is this machine itself and is not in the list")
        for name in names:
            known = known.without(name)
        machines.write(known)
    emit({"removed": list(names)}, lambda: click.echo(f"removed {', '.join(names)}"))

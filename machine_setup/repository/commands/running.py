"""``renet repo start|stop|run``: a repository's daemon as a service, or in the foreground."""

import click

from grants_cli import complete
from grants_cli.store import GrantStore
from machine_setup.repository import engine, foreground, lifecycle
from machine_setup.repository.commands.options import show_access
from spec.console import emit, layout, output_option, say
from spec.errors import CommandFailedError, RefusedError


@click.command("start")
@click.argument("name", shell_complete=complete.repository)
@output_option
def start(name: str) -> None:
    """Start the daemon of the repository NAME, now and at boot.

    \b
    renet repo start gpu-a
    """
    repository = GrantStore(layout()).read_register().get(name)
    lifecycle.start(layout(), repository)
    emit({"guid": repository.guid, "running": True}, lambda: click.echo(f"started {repository.ref}"))


@click.command("stop")
@click.argument("name", shell_complete=complete.repository)
@output_option
def stop(name: str) -> None:
    """End the daemon of the repository NAME and its containers. Its grants stay.

    \b
    renet repo stop gpu-a
    """
    repository = GrantStore(layout()).read_register().get(name)
    lifecycle.stop(layout(), repository)
    emit({"guid": repository.guid, "running": False}, lambda: click.echo(f"stopped {repository.ref}"))


@click.command("run")
@click.argument("name", shell_complete=complete.repository)
@click.option("--dockerd", metavar="PATH", help="Another dockerd than the installed one.")
def run(name: str, dockerd: str | None) -> None:
    """Run the daemon of the repository NAME in the foreground, until it is interrupted.

    It is what the units do, for machines without systemd: its network, its view of the granted devices, its
    own mounts, its socket; afterwards none of them is left. The gate must run too: renet gate serve.

    \b
    renet repo run gpu-a
    """
    repository = GrantStore(layout()).read_register().get(name)
    if not repository.managed:
        raise RefusedError(
            f"{repository.ref} is adopted: renet does not start its daemon", "start it as it was made to be"
        )
    program = dockerd or engine.dockerd_path()

    def ready() -> None:
        say(f"the daemon of {repository.ref} takes requests; Ctrl-C ends it")
        show_access(repository)

    status = foreground.run(layout(), repository, program, ready)
    if status not in {0, -15, -2}:
        raise CommandFailedError(f"dockerd ended with status {status}", "its own messages above say why")

"""``renet repo repair``: a daemon's configuration is put right."""

import os
import signal

import click

from grants_cli import complete
from grants_cli.store import GrantStore
from machine_setup.repository import adopt, daemon, engine, lifecycle
from spec.console import emit, layout, output_option


@click.command("repair")
@click.argument("name", shell_complete=complete.repository)
@click.option("--restart", is_flag=True, help="Restart its daemon afterwards, where renet made it.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@output_option
def repair(name: str, restart: bool, dry_run: bool) -> None:
    """Put right what the daemon.json of the repository NAME leaves open. The old file stays beside it.

    A running daemon is told to read the file again: the plugins count at once, the rest when it restarts.

    \b
    renet repo repair gpu-a --restart
    """
    repository = GrantStore(layout()).read_register().get(name)
    if dry_run:
        done = adopt.Repair(adopt.check(layout(), repository, engine.version_or_floor()))
    else:
        done = adopt.fix(layout(), repository, engine.dockerd_path())
        pid = daemon.find(repository)
        if pid is not None:
            os.kill(pid, signal.SIGHUP)
        if restart and repository.managed:
            lifecycle.stop(layout(), repository)
            lifecycle.start(layout(), repository)

    def show() -> None:
        for deviation in done.deviations:
            verb = "changed" if done.changed else "would change"
            click.echo(f"{verb} {deviation.key}: {deviation.found}, now {deviation.wanted}")
        if not done.deviations:
            click.echo(f"{repository.daemon_json} leaves nothing open")
        if done.backup:
            click.echo(f"the old file is {done.backup}")

    emit(
        {
            "guid": repository.guid,
            "changed": [deviation.key for deviation in done.deviations],
            "backup": str(done.backup) if done.backup else None,
            "dryRun": dry_run,
        },
        show,
    )

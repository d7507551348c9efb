"""``renet repo repair``: a daemon's configuration is put right."""

import os
import signal

import click

from grants_cli import complete
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from machine_setup.repository import adopt, daemon, engine, lifecycle, units
from machine_setup.repository.adopt import Repair
from spec.console import emit, layout, output_option
from spec.errors import RefusedError


@click.command("repair")
@click.argument("name", shell_complete=complete.repository)
@click.option("--restart", is_flag=True, help="Restart its daemon afterwards.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@output_option
def repair(name: str, restart: bool, dry_run: bool) -> None:
    """Put right what the daemon of the repository NAME leaves open, in its file and on its command line.

    The old daemon.json stays beside the new one. Flags that leave something open, or that the file says now,
    are taken from the unit that starts the daemon, by a drop-in that can be removed. A running daemon is told
    to read its file again: the plugins count at once, the rest when it restarts, which ends its containers
    unless it has "live-restore".

    \b
    renet repo repair gpu-a --dry-run
    renet repo repair gpu-a --restart
    """
    repository = GrantStore(layout()).read_register().get(name)
    unit = "" if repository.managed else units.unit_of(layout(), daemon.find(repository))
    if restart and not (repository.managed or unit):
        raise RefusedError(
            f"no unit of systemd starts the daemon of {repository.ref}: renet cannot restart it",
            f"renet repo repair {repository.ref}, then restart it as it was started",
        )
    if dry_run:
        done = Repair(adopt.check(layout(), repository, engine.version_or_floor()))
    else:
        done = adopt.fix(layout(), repository, engine.dockerd_path())
        _make_it_count(repository, unit, restart)
    emit(
        {
            "guid": repository.guid,
            "changed": [deviation.key for deviation in done.deviations],
            "backup": str(done.backup) if done.backup else None,
            "dropIn": str(done.drop_in) if done.drop_in else None,
            "dryRun": dry_run,
        },
        lambda: _show(repository, done, "" if restart else unit),
    )


def _make_it_count(repository: Repository, unit: str, restart: bool) -> None:
    pid = daemon.find(repository)
    if pid is not None:
        os.kill(pid, signal.SIGHUP)
    if restart and unit:
        units.restart(unit)
    elif restart:
        lifecycle.stop(layout(), repository)
        lifecycle.start(layout(), repository)


def _show(repository: Repository, done: Repair, still_to_restart: str) -> None:
    for deviation in done.deviations:
        verb = "changed" if done.changed else "would change"
        click.echo(f"{verb} {deviation.key}: {deviation.found}, now {deviation.wanted}")
    if not done.deviations:
        click.echo(f"{repository.daemon_json} leaves nothing open")
    if done.backup:
        click.echo(f"the old file is {done.backup}")
    if done.drop_in:
        click.echo(f"{done.drop_in} takes the flags away")
    if done.changed and still_to_restart:
        click.echo(f"the rest counts when the daemon restarts: systemctl restart {still_to_restart}")

"""``renet repo prepare|views``: what the units call."""

import time

import click

from grants_cli.store import GrantStore
from machine_setup.repository import daemon, lifecycle, prepare
from spec.console import emit, layout, output_option
from spec.errors import RefusedError

#: Seconds in which a generator that writes several specs writes the next.
_SETTLE = 0.5


@click.command("prepare", hidden=True)
@click.argument("slug")
def prepare_command(slug: str) -> None:
    """Make what the daemon of the repository SLUG needs before it starts: directories, view, network."""
    repository = lifecycle.find(layout(), slug)
    if not repository.managed:
        raise RefusedError(f"{repository.ref} is adopted: renet does not start its daemon", "")
    daemon.end_everything(repository)
    prepare.up(layout(), repository)


@click.command("views")
@click.option("--settle", is_flag=True, hidden=True, help="Go on until the specs change no more.")
@output_option
def views(settle: bool) -> None:
    """Write every repository's view of the granted devices anew.

    The units call it after a change of the machine's specs and when grants may have expired.

    \b
    renet repo views
    """
    changed = set(prepare.refresh_views(layout()))
    # A path unit does not look while the service that it started runs: a second change is ours to see.
    while settle:
        time.sleep(_SETTLE)
        later = prepare.refresh_views(layout())
        changed.update(later)
        settle = bool(later)
    known = GrantStore(layout()).read_register().by_slug
    emit(
        {"changed": sorted(changed), "repositories": len(known)},
        lambda: click.echo(f"{len(changed)} of {len(known)} views changed"),
    )

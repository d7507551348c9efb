"""``renet repo create``: a repository with a Docker daemon of its own."""

import click

from grants_cli.refs import Ref
from machine_setup.repository import engine, lifecycle, units
from machine_setup.repository.commands.options import described, new_repository_options, show_access, wishes
from spec.console import emit, layout, output_option, say


@click.command("create")
@click.argument("name")
@new_repository_options
@output_option
def create(name: str, *, group: str, network: str, subnet: str | None, no_start: bool, dry_run: bool) -> None:
    """Make the repository NAME: an identity, a Docker daemon of its own behind the gate, and a network.

    It has no device until one is granted. Where systemd runs, its daemon is started and starts at boot.

    \b
    renet repo create gpu-a --group gpu-a
    renet repo create gpu-a:test --network host --no-start
    """
    ref, chosen = Ref.parse(name), wishes(group, network, subnet)
    dockerd = engine.dockerd_path()
    if dry_run:
        version = lifecycle.check_engine(dockerd)
        emit({"dryRun": True, "ref": str(ref), "engine": str(version)}, lambda: _would(ref, str(version)))
        return
    repository = lifecycle.create(layout(), ref, chosen, dockerd)
    starts = units.in_use(layout()) and not no_start
    if starts:
        say(f"starting the daemon of {ref} ...")
        lifecycle.start(layout(), repository)

    def show() -> None:
        click.echo(f"created {ref} ({repository.guid}); it has no device yet")
        if not starts:
            how = "start" if units.in_use(layout()) else "run"
            click.echo(f"its daemon does not run: renet repo {how} {ref}")
        show_access(repository)

    emit({**described(repository), "running": starts}, show)


def _would(ref: Ref, version: str) -> None:
    places = layout()
    click.echo(f"would create {ref} on Docker {version}:")
    for path in (
        places.daemon_json(ref.slug), places.docker_socket(ref.slug), places.plugin_socket(ref.slug),
        places.view_dir(ref.slug),
    ):  # fmt: skip
        click.echo(f"  {path}")

"""``renet repo fork``: a new repository with the data of another."""

import click

from grants_cli import complete
from grants_cli.refs import Ref
from grants_cli.store import GrantStore
from machine_setup.repository import engine, lifecycle, units
from machine_setup.repository.commands.options import described, new_repository_options, show_access, wishes
from machine_setup.repository.forking import fork_repository
from spec.console import emit, layout, output_option, say


@click.command("fork")
@click.argument("name", shell_complete=complete.repository)
@click.argument("new")
@new_repository_options
@output_option
def fork(
    name: str, new: str, *, group: str, network: str, subnet: str | None, no_start: bool, dry_run: bool
) -> None:
    """Make the repository NEW with the images, containers and volumes that NAME has now.

    NAME may be running: it stands still while its files are copied, for an instant where the file system
    shares blocks. NEW has an identity of its own and no grants, and none of its containers runs until
    somebody starts it. Networks are not carried over: docker compose up makes its own again.

    \b
    renet repo fork gpu-a gpu-a:experiment
    """
    original, ref = GrantStore(layout()).read_register().get(name), Ref.parse(new)
    dockerd, chosen = engine.dockerd_path(), wishes(group, network, subnet)
    if dry_run:
        source = layout().repository_dir(original.guid)
        emit(
            {"dryRun": True, "ref": str(ref), "from": str(source)}, lambda: click.echo(f"would copy {source}")
        )
        return

    def progress(done: int, total: int) -> None:
        say(f"copied {done / 2**20:.0f} of {total / 2**20:.0f} MiB")

    forked = fork_repository(layout(), original, ref, chosen, dockerd=dockerd, progress=progress)
    repository = forked.repository
    starts = units.in_use(layout()) and not no_start
    if starts:
        lifecycle.start(layout(), repository)

    def show() -> None:
        how = "sharing its blocks" if forked.shares_blocks else "copying its data"
        click.echo(f"forked {ref} ({repository.guid}) from {original.ref}, {how}; it has no grants")
        if not starts:
            click.echo(
                f"its daemon does not run: renet repo {'start' if units.in_use(layout()) else 'run'} {ref}"
            )
        show_access(repository)

    emit(
        {
            **described(repository),
            "forkedFrom": original.guid,
            "sharesBlocks": forked.shares_blocks,
            "running": starts,
        },
        show,
    )

"""``renet repo delete``: a repository goes with everything that is its own."""

import click

from grants_cli import complete
from grants_cli.store import GrantStore
from machine_setup.repository import lifecycle
from spec.console import emit, layout, output_option


@click.command("delete")
@click.argument("name", shell_complete=complete.repository)
@click.option("--keep-data", is_flag=True, help="Leave its images, containers and volumes on the disk.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@output_option
def delete(name: str, keep_data: bool, dry_run: bool) -> None:
    """End the repository NAME and remove it: containers, daemon, network, files, grants.

    An adopted daemon keeps running and keeps its data; it is only no repository any more.

    \b
    renet repo delete gpu-a:experiment
    """
    store = GrantStore(layout())
    repository = store.read_register().get(name)
    home = layout().repository_dir(repository.guid)
    kept = home if keep_data and repository.managed and home.exists() else None
    if not dry_run:
        lifecycle.delete(layout(), repository, keep_data=keep_data)

    def show() -> None:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {repository.ref} ({repository.guid})")
        if kept:
            click.echo(f"its data stays in {kept}")
        if not repository.managed:
            plugin = layout().plugin_socket(repository.slug).stem
            click.echo(f"its daemon refuses everything until {plugin} is gone from {repository.daemon_json}")

    emit({"guid": repository.guid, "dryRun": dry_run, "keptData": str(kept) if kept else None}, show)

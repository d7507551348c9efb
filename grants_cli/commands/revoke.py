"""``renet gpu revoke``: take a device away from a repository."""

import click

from grants_cli.granting import take
from grants_cli.store import GrantStore
from spec.console import emit, layout, output_option
from spec.errors import UsageError
from spec.names import QualifiedName


@click.command("revoke")
@click.argument("repo")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="A CDI name; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="Every grant that the repository has.")
@click.option("--dry-run", is_flag=True, help="Check everything and change nothing.")
@output_option
def revoke(repo: str, devices: tuple[str, ...], everything: bool, dry_run: bool) -> None:
    """Take each --device away from the repository REPO, from its next Docker request on.

    The machine need not have the device any more.

    \b
    renet gpu revoke gpu-a --device nvidia.com/gpu=0
    renet gpu revoke gpu-a --all
    """
    if everything == bool(devices):
        raise UsageError("give either --device or --all", "renet gpu list shows what is granted")
    names = [str(QualifiedName.parse(device)) for device in devices]
    with GrantStore(layout()).transaction() as transaction:
        repository = transaction.register.get(repo)
        held = [grant.device for grant in transaction.grants.of(repository.guid)]
        change = take(transaction, repository.guid, names or held, dry_run=dry_run)

    def show() -> None:
        for name in change.changed:
            click.echo(f"{'would revoke' if dry_run else 'revoked'} {name} from {repository.ref}")
        for name in change.unchanged:
            click.echo(f"{repository.ref} has no grant for {name}")
        if not change.changed and not change.unchanged:
            click.echo(f"{repository.ref} has no grants")

    emit(
        {
            "repository": str(repository.ref),
            "guid": repository.guid,
            "revoked": list(change.changed),
            "already": list(change.unchanged),
            "grants": [record.to_record() for record in change.after],
            "dryRun": dry_run,
        },
        show,
    )

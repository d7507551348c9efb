"""``renet gpu grant``: let a repository use a device."""

import click

from grants_cli import complete
from grants_cli.changes import Terms
from grants_cli.devices import Devices
from grants_cli.granting import give
from grants_cli.operator import operator_name
from grants_cli.resolving import wait_until_known
from grants_cli.store import GrantStore
from grants_cli.times import parse_expiry, to_text, utc_now
from spec.console import emit, layout, output_option, say


@click.command("grant")
@click.argument("repo", shell_complete=complete.repository)
@click.option(
    "--device",
    "devices",
    multiple=True,
    required=True,
    metavar="NAME",
    help="A CDI name; may be repeated.",
    shell_complete=complete.device,
)
@click.option(
    "--exclusive/--shared",
    default=None,
    help="Keep all other repositories off the same GPU, or not. [default: as it is; shared when new]",
)
@click.option(
    "--expires", metavar="TIME", help="End the grant by itself: 8h, 7d, 2026-12-31T18:00Z, or never."
)
@click.option("--dry-run", is_flag=True, help="Check everything and change nothing.")
@output_option
def grant(
    repo: str, devices: tuple[str, ...], exclusive: bool | None, expires: str | None, dry_run: bool
) -> None:
    """Let the repository REPO use each --device, from its next Docker request on. All of them or none.

    \b
    renet gpu grant gpu-a --device nvidia.com/gpu=0
    renet gpu grant gpu-a --device nvidia.com/gpu=0 --exclusive --expires 8h
    """
    never = expires == "never"
    expires_at = parse_expiry(expires, utc_now()) if expires and not never else None
    terms = Terms(operator_name(), exclusive, expires_at, never)
    machine = Devices(layout())
    with GrantStore(layout()).transaction() as transaction:
        repository = transaction.register.get(repo)
        change = give(transaction, repository, devices, terms, machine, dry_run=dry_run)
    # Outside of the lock: a daemon that is slow keeps nobody else waiting.
    problem = "" if dry_run or not change.changed else wait_until_known(repository, change.changed)
    if problem:
        say(f"{problem}; renet doctor {repository.ref} looks for the cause")

    def terms_of(device: str) -> str:
        given = change.grant_of(device)
        until = f", until {to_text(given.expires_at)}" if given.expires_at else ""
        return f"{'exclusive' if given.exclusive else 'shared'}{until}"

    def show() -> None:
        for name in change.changed:
            click.echo(
                f"{'would grant' if dry_run else 'granted'} {name} to {repository.ref} ({terms_of(name)})"
            )
        for name in change.unchanged:
            click.echo(f"{repository.ref} has {name} already ({terms_of(name)})")

    emit(
        {
            "repository": str(repository.ref),
            "guid": repository.guid,
            "granted": list(change.changed),
            "already": list(change.unchanged),
            "grants": [grant.to_record() for grant in change.after],
            "dryRun": dry_run,
        },
        show,
    )

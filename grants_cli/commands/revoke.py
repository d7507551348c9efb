"""``renet gpu revoke``: take a device away from a repository."""

from dataclasses import dataclass

import click

from grants_cli import complete
from grants_cli.changes import Change
from grants_cli.containers import Container, containers_of, release
from grants_cli.granting import grantee, take
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from spec.console import emit, layout, output_option
from spec.errors import UnreachableError, UsageError
from spec.names import QualifiedName


@dataclass(frozen=True)
class _Holders:
    """The repository's containers that ask for what is revoked."""

    containers: tuple[Container, ...] = ()
    #: Why they are not known; empty when they are.
    problem: str = ""

    @property
    def running(self) -> list[str]:
        return sorted(container.name for container in self.containers if container.holds)

    @property
    def coming_back(self) -> list[str]:
        return sorted(each.name for each in self.containers if each.comes_back and not each.holds)


@click.command("revoke")
@click.argument("repo", shell_complete=complete.repository)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    help="A CDI name; may be repeated.",
    shell_complete=complete.granted_device,
)
@click.option("--all", "everything", is_flag=True, help="Every grant that the repository has.")
@click.option("--stop", is_flag=True, help="Stop the containers that hold a device, for good.")
@click.option("--dry-run", is_flag=True, help="Check everything and change nothing.")
@output_option
def revoke(repo: str, devices: tuple[str, ...], everything: bool, stop: bool, dry_run: bool) -> None:
    """Take each --device away from the repository REPO, from its next Docker request on.

    The machine need not have the device any more. A container that runs keeps what it holds until it
    stops: it is named, and --stop stops it and turns its restart policy off.

    \b
    renet gpu revoke gpu-a --device nvidia.com/gpu=0
    renet gpu revoke gpu-a --all --stop
    """
    if everything == bool(devices):
        raise UsageError("give either --device or --all", "renet gpu grants shows what is granted")
    names = [str(QualifiedName.parse(device)) for device in devices]
    with GrantStore(layout()).transaction() as transaction:
        guid, label, repository = grantee(transaction, repo)
        held = [grant.device for grant in transaction.grants.of(guid)]
        change = take(transaction, guid, names or held, dry_run=dry_run)
    # With --all, what was revoked earlier counts too, where a container still holds it.
    holders = _find(repository, None if everything else frozenset(names))
    stopped = _stop(repository, holders) if stop and not dry_run else []
    emit(
        {
            "repository": label,
            "guid": guid,
            "revoked": list(change.changed),
            "already": list(change.unchanged),
            "grants": [grant.to_record() for grant in change.after],
            "containers": [name for name in holders.running if name not in stopped],
            "stopped": stopped,
            "containersUnknown": holders.problem or None,
            "dryRun": dry_run,
        },
        lambda: _show(label, change, dry_run),
    )
    _tell(label, holders, stopped, dry_run=dry_run, stop=stop)


def _find(repository: Repository | None, devices: frozenset[str] | None) -> _Holders:
    """The containers that ask for one of `devices`, or for any device at all."""
    if repository is None or not repository.socket.exists():
        return _Holders()
    try:
        found = containers_of(repository)
    except UnreachableError as error:
        return _Holders(problem=error.message)
    return _Holders(tuple(each for each in found if devices is None or each.devices & devices))


def _stop(repository: Repository | None, holders: _Holders) -> list[str]:
    if repository is None:
        return []
    if holders.problem:
        raise UnreachableError(
            f"the grants are gone, and the containers could not be stopped: {holders.problem}",
            "what runs keeps its device until it stops; repeat the command once the daemon answers",
        )
    release(repository, holders.containers)
    return holders.running


def _show(label: str, change: Change, dry_run: bool) -> None:
    for name in change.changed:
        click.echo(f"{'would revoke' if dry_run else 'revoked'} {name} from {label}")
    for name in change.unchanged:
        click.echo(f"{label} has no grant for {name}")
    if not change.changed and not change.unchanged:
        click.echo(f"{label} has no grants")


def _tell(label: str, holders: _Holders, stopped: list[str], *, dry_run: bool, stop: bool) -> None:
    """Say what a person must know about containers."""
    if holders.problem:
        click.echo(f"warning: which containers run in {label} is not known: {holders.problem}", err=True)
    for name in stopped:
        click.echo(f"stopped {name} of {label}", err=True)
    for name in holders.running:
        if stop and dry_run:
            click.echo(f"would stop {name} of {label}", err=True)
        elif not stop:
            click.echo(f"warning: {name} of {label} holds it until it stops (--stop stops it)", err=True)
    if not stop:
        for name in holders.coming_back:
            problem = "does not run, and its restart policy can bring it back (--stop turns that off)"
            click.echo(f"warning: {name} of {label} {problem}", err=True)

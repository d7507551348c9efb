"""Granting and revoking in a transaction: the one way in which grants change."""

from collections.abc import Iterable

from grants_cli import changes
from grants_cli.changes import Change, Terms
from grants_cli.devices import Devices
from grants_cli.exclusive import Conflict, conflicts
from grants_cli.register import Repository
from grants_cli.store import Transaction
from grants_cli.times import to_text
from spec.errors import NotFoundError, RefusedError


def give(
    transaction: Transaction,
    repository: Repository,
    devices: tuple[str, ...],
    terms: Terms,
    machine: Devices,
    *,
    dry_run: bool = False,
) -> Change:
    """Grant all of `devices` to `repository`, or none.

    Raises `InvalidNameError`, `NotFoundError` for a name that no spec defines, `RefusedError` when
    another repository's grant stands in the way, and `StorageError`.
    """
    names = machine.check(devices)
    before, now = transaction.grants.of(repository.guid), transaction.now
    live = {grant.device: grant for grant in before if grant.is_live(now)}
    wanted = [terms.apply(name, live.get(name), now, tuple(sorted(machine.cards(name)))) for name in names]
    change = changes.grant(before, wanted, now)
    new = [change.grant_of(device) for device in change.changed]
    found = list(conflicts(transaction.grants, repository.guid, new, machine, now))
    if found:
        raise _refusal(transaction, repository, found)
    if change.changed and not dry_run:
        transaction.commit("grant", transaction.grants.replaced(repository.guid, change.after))
    return change


def take(transaction: Transaction, guid: str, devices: Iterable[str], *, dry_run: bool = False) -> Change:
    """Revoke `devices` from the repository `guid`, whatever the machine has; raises `StorageError`."""
    change = changes.revoke(transaction.grants.of(guid), devices, transaction.now)
    if change.after != change.before and not dry_run:
        transaction.commit("revoke", transaction.grants.replaced(guid, change.after))
    return change


def grantee(transaction: Transaction, text: str) -> tuple[str, str, Repository | None]:
    """The GUID, the name and the repository that `text` means.

    Grants of a repository that is not registered (any more) can be named by their GUID: there is no
    repository then. Raises `InvalidNameError` and `NotFoundError`.
    """
    try:
        repository = transaction.register.get(text)
    except NotFoundError:
        if text not in transaction.grants.by_guid or text in transaction.register.by_guid:
            raise
        return text, text, None
    return repository.guid, str(repository.ref), repository


def _refusal(transaction: Transaction, repository: Repository, found: list[Conflict]) -> RefusedError:
    """The error that names each holder, what it holds and why that is the same GPU."""
    reasons, ways_out = [], []
    for conflict in found:
        holder = transaction.register.by_guid.get(conflict.holder)
        name = str(holder.ref) if holder else conflict.holder
        held = conflict.held
        how = " exclusively" if held.exclusive else ""
        until = f" until {to_text(held.expires_at)}" if held.expires_at else ""
        what = f"it{how}" if held.device == conflict.wanted.device else f"{held.device}{how}"
        same = f", which is the same GPU ({conflict.shared})" if conflict.shared else ""
        wish = "exclusively " if conflict.wanted.exclusive else ""
        refused = f"{conflict.wanted.device} cannot be granted {wish}to {repository.ref}"
        reasons.append(f"{refused}: {name} holds {what}{until}{same}")
        ways_out.append(f"renet gpu revoke {name} --device {held.device}")
    return RefusedError(
        "; ".join(reasons), f"take that grant away first: {'; '.join(dict.fromkeys(ways_out))}"
    )

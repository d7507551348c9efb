"""What granting and revoking mean, as pure functions from the grants before to the grants after."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from grants_cli.grants import Grant


@dataclass(frozen=True)
class Terms:
    """On what terms an operator grants: `None` leaves what is; a new grant is shared and does not end."""

    by: str
    exclusive: bool | None = None
    expires_at: datetime | None = None
    #: Take away the expiry that a grant has.
    never_expires: bool = False

    def apply(self, device: str, old: Grant | None, now: datetime, cards: tuple[str, ...] = ()) -> Grant:
        """The grant of `device` on these terms, in the place of `old`: `old` itself when that has them."""
        exclusive = self.exclusive if self.exclusive is not None else bool(old and old.exclusive)
        kept = old.expires_at if old and not self.never_expires else None
        expires_at = self.expires_at or kept
        if old and (old.exclusive, old.expires_at) == (exclusive, expires_at):
            return old
        return Grant(device, exclusive, now, self.by, expires_at, cards)


@dataclass(frozen=True)
class Change:
    """What becomes of one repository's grants."""

    before: tuple[Grant, ...]
    after: tuple[Grant, ...]
    #: Names that it grants or revokes, and those for which nothing has to be done.
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]

    def grant_of(self, device: str) -> Grant:
        """The grant of `device` after the change; raises `KeyError` when there is none."""
        return {grant.device: grant for grant in self.after}[device]


def grant(before: tuple[Grant, ...], wanted: Iterable[Grant], now: datetime) -> Change:
    """Put each grant that is `wanted` in the place of the live one of its device, if there is one.

    That is how a shared grant becomes exclusive, and how an expiry is moved.
    """
    held = {grant.device: grant for grant in before if grant.is_live(now)}
    wanted = tuple(wanted)
    after = {**held, **{grant.device: grant for grant in wanted}}
    return Change(
        before,
        tuple(after.values()),
        tuple(grant.device for grant in wanted if held.get(grant.device) != grant),
        tuple(grant.device for grant in wanted if held.get(grant.device) == grant),
    )


def revoke(before: tuple[Grant, ...], devices: Iterable[str], now: datetime) -> Change:
    """Take each of `devices` away; a name that is not granted, or no longer, is left alone."""
    devices = tuple(dict.fromkeys(devices))
    live = {grant.device for grant in before if grant.is_live(now)}
    return Change(
        before,
        tuple(grant for grant in before if grant.device not in devices),
        tuple(device for device in devices if device in live),
        tuple(device for device in devices if device not in live),
    )

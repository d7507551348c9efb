"""Grants as values: who may use what, and until when. No file is touched here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TypedDict

from grants_cli.times import from_text, to_text


class _Optional(TypedDict, total=False):
    cards: list[str]


class GrantRecord(_Optional):
    """A grant as the file has it."""

    device: str
    exclusive: bool
    grantedAt: str
    grantedBy: str
    expiresAt: str | None


@dataclass(frozen=True, slots=True)
class Grant:
    """One repository may use exactly the device of this name."""

    device: str
    exclusive: bool
    granted_at: datetime
    granted_by: str
    expires_at: datetime | None = None
    #: The PCI addresses that the name stood for when it was granted: kernel and driver may renumber cards.
    cards: tuple[str, ...] = ()

    def is_live(self, now: datetime) -> bool:
        """Whether the grant admits anything at `now`: from its expiry's second on it does not."""
        return self.expires_at is None or now < self.expires_at

    def to_record(self) -> GrantRecord:
        """The grant as the file has it."""
        record: GrantRecord = {
            "device": self.device,
            "exclusive": self.exclusive,
            "grantedAt": to_text(self.granted_at),
            "grantedBy": self.granted_by,
            "expiresAt": to_text(self.expires_at) if self.expires_at else None,
        }
        if self.cards:
            record["cards"] = list(self.cards)
        return record

    @classmethod
    def from_record(cls, record: GrantRecord) -> "Grant":
        """The grant that a record of the schema's form states; raises `ValueError` for a wrong date."""
        return cls(
            record["device"],
            record["exclusive"],
            from_text(record["grantedAt"]),
            record["grantedBy"],
            from_text(record["expiresAt"]) if record["expiresAt"] else None,
            tuple(record.get("cards", ())),
        )


@dataclass(frozen=True)
class Grants:
    """All grants of a machine, by the GUID of the repository."""

    by_guid: Mapping[str, tuple[Grant, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_records(cls, records: Mapping[str, Iterable[GrantRecord]]) -> "Grants":
        """The grants that the file states; raises `ValueError` for a date or a device given twice."""
        by_guid = {guid: tuple(map(Grant.from_record, grants)) for guid, grants in records.items()}
        for guid, grants in by_guid.items():
            if len({grant.device for grant in grants}) != len(grants):
                raise ValueError(f"a device is granted twice to {guid}")
        return cls(MappingProxyType(by_guid))

    def to_records(self) -> dict[str, list[GrantRecord]]:
        """The grants as the file has them."""
        return {guid: [grant.to_record() for grant in grants] for guid, grants in self.by_guid.items()}

    def of(self, guid: str) -> tuple[Grant, ...]:
        """The grants of the repository `guid`, expired ones included."""
        return self.by_guid.get(guid, ())

    def live(self, guid: str, now: datetime) -> frozenset[str]:
        """The names of the devices that the repository `guid` may use at `now`."""
        return frozenset(grant.device for grant in self.of(guid) if grant.is_live(now))

    def replaced(self, guid: str, grants: Iterable[Grant]) -> "Grants":
        """These grants with `grants` as the only ones of the repository `guid`, sorted by device."""
        mine = tuple(sorted(grants, key=lambda grant: grant.device))
        others = {key: value for key, value in self.by_guid.items() if key != guid}
        return Grants(MappingProxyType({**others, guid: mine} if mine else others))

    def swept(self, now: datetime) -> "Grants":
        """These grants without those that have expired at `now`."""
        if all(grant.is_live(now) for grants in self.by_guid.values() for grant in grants):
            return self
        live = {guid: tuple(g for g in grants if g.is_live(now)) for guid, grants in self.by_guid.items()}
        return Grants(MappingProxyType({guid: grants for guid, grants in live.items() if grants}))

"""What `renet` answers, read into values; anything of another form raises `CommandFailedError`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from spec.errors import CommandFailedError

Record = Mapping[str, object]


@dataclass(frozen=True)
class Repository:
    """A repository of a machine, and what else `renet` says of it."""

    ref: str
    record: Record


@dataclass(frozen=True)
class LiveGrant:
    """A grant that stands now."""

    repository: str
    device: str
    exclusive: bool
    expires: str


@dataclass(frozen=True)
class Gpu:
    """A card as the inventory has it; `memory` in MiB, 0 where it is not known."""

    index: int
    name: str
    driver: str
    memory: int


@dataclass(frozen=True)
class Inventory:
    """What set-up found on a machine; `generated` in UTC as text."""

    generated: str
    platform: str
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """A machine's cards as set-up found them, and the devices and grants that there are now."""

    inventory: Inventory | None
    devices: tuple[str, ...]
    grants: tuple[LiveGrant, ...]


def records(data: object, what: str) -> list[Record]:
    """`data` as a list of objects."""
    if isinstance(data, list) and all(isinstance(item, dict) for item in data):
        return cast(list[Record], data)
    raise CommandFailedError(
        f"the answer of renet is not a list of {what}",
        "renet there may be of another version: rdc machine setup MACHINE",
    )


def record(data: object) -> Record:
    """`data` as one object."""
    return records([data], "one")[0]


def names(record: Record, key: str) -> list[str]:
    """The list of text under `key`; empty where there is none."""
    value = record.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []


def repositories(data: object) -> list[Repository]:
    """The answer of ``renet repo list``."""
    return [Repository(text(record, "ref"), record) for record in records(data, "repositories")]


def live_grants(data: object) -> list[LiveGrant]:
    """The answer of ``renet gpu grants``."""
    return [
        LiveGrant(
            text(record, "repository"),
            text(record, "device"),
            record.get("exclusive") is True,
            text(record, "expiresAt"),
        )
        for record in records(data, "grants")
    ]


def status(data: object) -> Status:
    """The answer of ``renet gpu status``."""
    answer = record(data)
    found = answer.get("inventory")
    return Status(
        _inventory(found) if found else None,
        tuple(names(answer, "devices")),
        tuple(live_grants(answer.get("grants"))),
    )


def _inventory(data: object) -> Inventory:
    if not isinstance(data, dict) or data.get("version") != 1:
        raise CommandFailedError("the inventory is of a version that this rdc does not know", "update rdc")
    gpus = tuple(
        Gpu(
            number(gpu, "index"),
            text(gpu, "name") or text(gpu, "vendor"),
            " ".join(filter(None, (text(gpu, "driver"), text(gpu, "driverVersion")))),
            number(gpu, "memoryMiB"),
        )
        for gpu in records(data.get("gpus", []), "GPUs")
    )
    return Inventory(text(data, "generatedAt"), text(data, "platform"), gpus, tuple(names(data, "warnings")))


def text(record: Record, key: str) -> str:
    """The value of `key` as text; "" where there is none."""
    value = record.get(key)
    return "" if value is None else str(value)


def number(record: Record, key: str) -> int:
    """The value of `key` as a whole number; 0 where there is none."""
    value = record.get(key)
    return value if isinstance(value, int) else 0

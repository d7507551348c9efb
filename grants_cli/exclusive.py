"""The check that keeps a GPU with the one repository that holds it exclusively."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from grants_cli.devices import Devices
from grants_cli.grants import Grant, Grants


@dataclass(frozen=True)
class Conflict:
    """A grant that cannot be given, and the one of another repository that stands in its way."""

    wanted: Grant
    holder: str
    held: Grant
    #: What makes them the same hardware: the path of a node or a card's PCI address; empty for the same name.
    shared: str


def conflicts(
    grants: Grants, guid: str, wanted: Iterable[Grant], machine: Devices, now: datetime
) -> Iterator[Conflict]:
    """What keeps `wanted` from being given to the repository `guid` at `now`."""
    wanted = tuple(wanted)
    for holder, held in _live(grants, now):
        if holder == guid:
            continue
        for grant in wanted:
            if grant.exclusive or held.exclusive:
                same, shared = same_hardware(grant, held, machine)
                if same:
                    yield Conflict(grant, holder, held, shared)


def _live(grants: Grants, now: datetime) -> Iterator[tuple[str, Grant]]:
    for guid, own in grants.by_guid.items():
        for grant in own:
            if grant.is_live(now):
                yield guid, grant


def same_hardware(one: Grant, other: Grant, machine: Devices) -> tuple[bool, str]:
    """Whether both are for the same hardware, and what makes it the same: empty for one name."""
    if one.device == other.device:
        return True, ""
    if one.device in machine and other.device in machine:
        node = machine.shared_node(one.device, other.device)
        return bool(node), node
    # A spec that is gone may come back: until then the cards that were recorded tell what it was.
    cards = _cards(one, machine) & _cards(other, machine)
    return bool(cards), min(cards, default="")


def _cards(grant: Grant, machine: Devices) -> frozenset[str]:
    return machine.cards(grant.device) if grant.device in machine else frozenset(grant.cards)

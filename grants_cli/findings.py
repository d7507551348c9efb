"""What an operator should look at in grants that can be trusted: what nobody would have granted so."""

from collections.abc import Iterator
from datetime import datetime
from itertools import combinations

from grants_cli.devices import Devices
from grants_cli.exclusive import same_hardware
from grants_cli.grants import Grant, Grants
from grants_cli.register import Register
from grants_cli.store import read_grants, read_register
from spec.layout import Layout


def findings(layout: Layout, now: datetime) -> Iterator[str]:
    """One sentence for each thing that is odd; raises `UntrustedError`."""
    grants, register, machine = read_grants(layout), read_register(layout), Devices(layout)
    yield from _without_repository(grants, register)
    yield from _gone(grants, register, machine, now)
    for (holder, held), (other, theirs), node in exclusive_overlaps(grants, machine, now):
        one = f"{_name(register, holder)} holds {held.device}"
        two = f"{_name(register, other)} {theirs.device}"
        same = f" ({node})" if node else ""
        yield f"{one} exclusively and {two}, which is the same GPU{same}: revoke one of them"


def exclusive_overlaps(
    grants: Grants, machine: Devices, now: datetime
) -> Iterator[tuple[tuple[str, Grant], tuple[str, Grant], str]]:
    """Pairs of live grants of two repositories that an exclusive one should have kept apart.

    None come about by granting. A spec that changed, and a file written by hand, can make them. With each
    pair comes the node that both share; empty for one name.
    """
    live = [(guid, grant) for guid, own in grants.by_guid.items() for grant in own if grant.is_live(now)]
    # Pairs with an exclusive one first: they are few, and all pairs of 5,000 grants are 12 million.
    exclusive = [each for each in live if each[1].exclusive]
    pairs = [*combinations(exclusive, 2)]
    pairs += [(one, other) for one in exclusive for other in live if not other[1].exclusive]
    for one, other in pairs:
        if one[0] != other[0]:
            same, node = same_hardware(one[1], other[1], machine)
            if same:
                yield one, other, node


def _without_repository(grants: Grants, register: Register) -> Iterator[str]:
    for guid in grants.by_guid:
        if guid not in register.by_guid:
            yield (
                f"{guid} has grants and is no repository of this machine: the gate ignores them; "
                f"renet gpu revoke {guid} --all removes them"
            )


def _gone(grants: Grants, register: Register, machine: Devices, now: datetime) -> Iterator[str]:
    for guid, own in grants.by_guid.items():
        for grant in own:
            cards = machine.cards(grant.device)
            if not grant.is_live(now):
                continue
            if grant.device not in machine:
                yield f"no spec on this machine defines {grant.device}, which {_name(register, guid)} holds"
            elif grant.cards and cards and cards != frozenset(grant.cards):
                yield (
                    f"{grant.device} of {_name(register, guid)} is another card now: "
                    f"{', '.join(sorted(cards))}; it was granted as {', '.join(grant.cards)}"
                )


def _name(register: Register, guid: str) -> str:
    repository = register.by_guid.get(guid)
    return str(repository.ref) if repository else guid

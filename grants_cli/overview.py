"""Who has which device: grants, containers and the machine's devices put together."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from grants_cli.containers import Answer, Container
from grants_cli.devices import Devices
from grants_cli.grants import Grant, Grants
from grants_cli.register import Register
from grants_cli.times import to_text


@dataclass(frozen=True)
class Holding:
    """What one repository has to do with one device."""

    device: str
    guid: str
    #: The repository's name; its GUID when it is not registered.
    repository: str
    #: `None` when a container holds the device without a grant: what was revoked while it ran.
    grant: Grant | None
    is_live: bool
    #: The names of its running containers that hold the device.
    running: tuple[str, ...]
    #: What its daemon failed with, when it did: the containers are not known then.
    problem: str
    #: No spec on the machine defines the device any more.
    is_gone: bool
    #: The PCI addresses that the name stands for now, when they are not those of the grant.
    moved_to: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The holding as JSON has it, without its containers."""
        granted = self.grant
        return {
            "device": self.device,
            "repository": self.repository,
            "guid": self.guid,
            "granted": granted is not None,
            "live": self.is_live,
            "exclusive": bool(granted and granted.exclusive),
            "grantedAt": to_text(granted.granted_at) if granted else None,
            "grantedBy": granted.granted_by if granted else None,
            "expiresAt": to_text(granted.expires_at) if granted and granted.expires_at else None,
            "gone": self.is_gone,
            "cards": list(granted.cards) if granted else [],
            "movedTo": list(self.moved_to),
        }


@dataclass(frozen=True)
class Facts:
    """Everything that an overview is made of."""

    grants: Grants
    register: Register
    answers: Mapping[str, Answer]
    machine: Devices
    now: datetime


def holdings(facts: Facts) -> tuple[Holding, ...]:
    """Every grant, expired ones included, and every device that a container holds without one."""
    found = [*_granted(facts), *_ungranted(facts)]
    return tuple(sorted(found, key=lambda holding: (holding.device, holding.repository)))


def _granted(facts: Facts) -> Iterator[Holding]:
    for guid, grants in facts.grants.by_guid.items():
        running = _running(facts.answers.get(guid, Answer()))
        for grant in grants:
            yield _holding(facts, guid, grant.device, grant, running.get(grant.device, ()))


def _ungranted(facts: Facts) -> Iterator[Holding]:
    for guid, answer in facts.answers.items():
        granted = {grant.device for grant in facts.grants.of(guid)}
        for device, names in _running(answer).items():
            if device not in granted:
                yield _holding(facts, guid, device, None, names)


def _holding(facts: Facts, guid: str, device: str, grant: Grant | None, running: tuple[str, ...]) -> Holding:
    repository = facts.register.by_guid.get(guid)
    now = tuple(sorted(facts.machine.cards(device)))
    return Holding(
        device,
        guid,
        str(repository.ref) if repository else guid,
        grant,
        grant is not None and grant.is_live(facts.now),
        running,
        facts.answers.get(guid, Answer()).problem,
        device not in facts.machine,
        now if grant and grant.cards and now and grant.cards != now else (),
    )


def _running(answer: Answer) -> dict[str, tuple[str, ...]]:
    """The names of running containers by the device that they hold."""
    holders: dict[str, list[Container]] = defaultdict(list)
    for container in answer.containers:
        if container.holds:
            for device in container.devices:
                holders[device].append(container)
    return {device: tuple(sorted(each.name for each in those)) for device, those in holders.items()}

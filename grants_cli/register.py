"""The repositories of a machine as values: which exist, and where their daemons are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from grants_cli.refs import Ref
from grants_cli.times import from_text, to_text
from spec.errors import NotFoundError, RefusedError


class _Optional(TypedDict, total=False):
    execRoot: str
    group: str
    subnet: str


class RepositoryRecord(_Optional):
    """A repository as the file has it."""

    ref: str
    socket: str
    dataRoot: str
    daemonJson: str
    managed: bool
    createdAt: str


@dataclass(frozen=True)
class Repository:
    """A tenant: a name, an identity that outlives the name, and a Docker daemon of its own."""

    guid: str
    ref: Ref
    socket: Path
    data_root: Path
    daemon_json: Path
    #: Whether renet made the daemon, rather than adopted one that existed.
    managed: bool
    created_at: datetime
    #: Where its daemon keeps the state of what runs; `None` where nobody said.
    exec_root: Path | None = None
    #: The group that may use the socket; empty for root alone.
    group: str = ""
    #: The addresses of its bridge and of its tenant's networks (CIDR); empty where renet made no network.
    subnet: str = ""

    @property
    def slug(self) -> str:
        """The ref as a file name."""
        return self.ref.slug

    def to_record(self) -> RepositoryRecord:
        """The repository as the file has it."""
        record: RepositoryRecord = {
            "ref": str(self.ref),
            "socket": str(self.socket),
            "dataRoot": str(self.data_root),
            "daemonJson": str(self.daemon_json),
            "managed": self.managed,
            "createdAt": to_text(self.created_at),
        }
        if self.exec_root:
            record["execRoot"] = str(self.exec_root)
        if self.group:
            record["group"] = self.group
        if self.subnet:
            record["subnet"] = self.subnet
        return record

    @classmethod
    def from_record(cls, guid: str, record: RepositoryRecord) -> "Repository":
        """The repository that a record of the schema's form states; raises `ValueError` for a wrong date."""
        return cls(
            guid,
            Ref.parse(record["ref"]),
            Path(record["socket"]),
            Path(record["dataRoot"]),
            Path(record["daemonJson"]),
            record["managed"],
            from_text(record["createdAt"]),
            Path(record["execRoot"]) if "execRoot" in record else None,
            record.get("group", ""),
            record.get("subnet", ""),
        )


@dataclass(frozen=True)
class Register:
    """All repositories of a machine; no two share a name, a socket or a data root."""

    repositories: tuple[Repository, ...] = ()

    @classmethod
    def from_records(cls, records: Mapping[str, RepositoryRecord]) -> "Register":
        """The repositories that the file states; raises `ValueError` when they cannot exist together."""
        register = cls(tuple(Repository.from_record(guid, record) for guid, record in records.items()))
        if len(register.by_ref) != len(register.repositories):
            raise ValueError("two repositories have one name")
        if len({repository.socket for repository in register.repositories}) != len(register.repositories):
            raise ValueError("two repositories have one socket")
        return register

    def to_records(self) -> dict[str, RepositoryRecord]:
        """The repositories as the file has them."""
        return {repository.guid: repository.to_record() for repository in self.repositories}

    @cached_property
    def by_ref(self) -> Mapping[str, Repository]:
        """The repositories by name, ``name[:tag]``."""
        return {str(repository.ref): repository for repository in self.repositories}

    @cached_property
    def by_slug(self) -> Mapping[str, Repository]:
        """The repositories by slug."""
        return {repository.slug: repository for repository in self.repositories}

    @cached_property
    def by_guid(self) -> Mapping[str, Repository]:
        """The repositories by GUID."""
        return {repository.guid: repository for repository in self.repositories}

    def get(self, ref: str) -> Repository:
        """The repository named `ref`; raises `InvalidNameError`, or `NotFoundError` with near misses."""
        name = str(Ref.parse(ref))
        if name in self.by_ref:
            return self.by_ref[name]
        near = get_close_matches(name, self.by_ref, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "renet repo list shows the repositories of this machine"
        )
        raise NotFoundError(f"there is no repository {name} on this machine", hint)

    def with_new(self, repository: Repository) -> "Register":
        """The register with `repository` too; raises `RefusedError` when it shares what must be its own."""
        for other in self.repositories:
            shared = _shared(repository, other)
            if shared:
                raise RefusedError(
                    f"{shared} is taken by the repository {other.ref}",
                    f"choose another, or delete that repository first: renet repo delete {other.ref}",
                )
        return self._of([*self.repositories, repository])

    def without(self, guid: str) -> "Register":
        """The register without the repository `guid`."""
        return self._of(repository for repository in self.repositories if repository.guid != guid)

    def replaced(self, repository: Repository) -> "Register":
        """The register with `repository` in the place of the one with its GUID; raises `RefusedError`."""
        return self.without(repository.guid).with_new(repository)

    @staticmethod
    def _of(repositories: Iterable[Repository]) -> "Register":
        return Register(tuple(sorted(repositories, key=lambda repository: repository.ref)))


def _shared(one: Repository, other: Repository) -> str:
    if one.ref == other.ref:
        return f"the name {one.ref}"
    if one.guid == other.guid:
        return f"the GUID {one.guid}"
    if one.socket == other.socket:
        return f"the socket {one.socket}"
    if one.data_root == other.data_root:
        return f"the data root {one.data_root}"
    return ""

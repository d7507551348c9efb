"""The machine's grants and repositories on disk: read without a lock, changed under it.

* A reader sees a whole file, the old or the new one: writers replace it by a rename.
* A writer reads, checks and writes under the machine's one lock, so that no two changes miss each other.
* What cannot be trusted is never overwritten: reading it raises, and a change begins by reading.
* A file that is not there holds nothing: a machine begins without grants.
"""

import contextlib
import errno
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import cast

from grants_cli import audit, generations, views
from grants_cli.audit import State
from grants_cli.documents import VERSION, Kind, encode, read_document, untrusted
from grants_cli.grants import GrantRecord, Grants
from grants_cli.lock import TIMEOUT, machine_lock
from grants_cli.register import Register, Repository, RepositoryRecord
from grants_cli.times import utc_now
from spec.errors import StorageError
from spec.files import CachedFile, replace_file
from spec.layout import Layout

_MODE = 0o600


def read_grants(layout: Layout) -> Grants:
    """All grants of the machine; raises `UntrustedError`."""
    return grants_at(layout.grants)


def read_register(layout: Layout) -> Register:
    """All repositories of the machine; raises `UntrustedError`."""
    return register_at(layout.register)


def grants_at(path: Path) -> Grants:
    """The grants that the file at `path` states, none where it is missing; raises `UntrustedError`."""
    document = read_document(path, Kind.GRANTS)
    if document is None:
        return Grants()
    try:
        return Grants.from_records(cast(Mapping[str, list[GrantRecord]], document["grants"]))
    except ValueError as error:
        raise untrusted(path, str(error)) from error


def register_at(path: Path) -> Register:
    """The repositories that the file at `path` states, none where it is missing; raises `UntrustedError`."""
    document = read_document(path, Kind.REPOSITORIES)
    if document is None:
        return Register()
    try:
        return Register.from_records(cast(Mapping[str, RepositoryRecord], document["repositories"]))
    except ValueError as error:
        raise untrusted(path, str(error)) from error


def cached_grants(layout: Layout) -> CachedFile[Grants]:
    """The grants for a long-lived reader, which pays for a file only when it has changed."""
    return CachedFile(layout.grants, lambda: read_grants(layout))


def cached_register(layout: Layout) -> CachedFile[Register]:
    """The repositories for a long-lived reader, which pays for a file only when it has changed."""
    return CachedFile(layout.register, lambda: read_register(layout))


class Transaction:
    """One change, under the lock: what the files said when it began, and what it writes."""

    def __init__(self, layout: Layout, now: datetime) -> None:
        self._layout = layout
        #: The moment of the change, in UTC to the second.
        self.now = now
        #: What stands; expired grants included, which the next write sweeps.
        self.grants = read_grants(layout)
        self.register = read_register(layout)

    def commit(self, action: str, grants: Grants | None = None, register: Register | None = None) -> None:
        """Make `grants` and `register` the machine's, where they are given, and record it as `action`.

        Grants that have expired are swept. When this returns, the change and its line in the audit log
        are on the disk. Raises `StorageError`: the file that could not be written is as it was, and so is
        every file after it. The grants are written first, so that a repository that goes never leaves
        grants behind.
        """
        before = State(self.grants, self.register)
        after = State((grants or self.grants).swept(self.now), register or self.register)
        writes: list[tuple[Kind, Path, bytes]] = []
        if after.grants != before.grants:
            writes.append((Kind.GRANTS, self._layout.grants, grants_document(after.grants, before.grants)))
        if after.register != before.register:
            writes.append(
                (Kind.REPOSITORIES, self._layout.register, register_document(after.register, before.register))
            )
        if not writes:
            return
        try:
            self._record_and_write(action, before, after, writes)
        except StorageError as error:
            # Who fills the disk must not keep a device by that: what is kept of older states makes room.
            if not (_is_full(error) and generations.make_room(self._layout.generations)):
                raise
            self._record_and_write(action, before, after, writes)
        self.grants, self.register = after.grants, after.register

    def _record_and_write(
        self, action: str, before: State, after: State, writes: list[tuple[Kind, Path, bytes]]
    ) -> None:
        number = generations.next_number(self._layout.generations)
        line = audit.entry(action, self.now, number, before, after)
        audit.append(self._layout.audit_log, line)
        written: list[str] = []
        # Inside the transaction: no other change of grants comes between the files and the views.
        affected = _affected(before, after)
        try:
            views.narrow(self._layout, affected, before.grants, after.grants)
            for kind, path, content in writes:
                self._write(kind, path, content, number)
                written.append(path.name)
        except StorageError as error:
            if written:
                error.message += f"; {written[0]} has been changed already"
            with contextlib.suppress(StorageError):
                audit.append(self._layout.audit_log, audit.failure(line, error.message))
            raise
        views.refresh(self._layout, affected, after.grants, self.now)

    def _write(self, kind: Kind, path: Path, content: bytes, number: int) -> None:
        remove_leftovers(path.parent, path.name)
        remove_leftovers(self._layout.generations, kind.value)
        generation = None
        try:
            generation = generations.keep(self._layout.generations, kind, number, content)
            replace_file(path, content, _MODE)
        except OSError as error:
            if generation:
                generations.drop(generation)
            raise StorageError(
                f"cannot write {path}: {error.strerror}; it is as it was",
                "make room or make it writable, then repeat the command",
            ) from error
        generations.prune(self._layout.generations, kind)


class GrantStore:
    """The grants and repositories of one machine."""

    def __init__(self, layout: Layout, lock_timeout: float = TIMEOUT) -> None:
        self._layout = layout
        self._lock_timeout = lock_timeout

    def read(self) -> Grants:
        """All grants, without the lock; raises `UntrustedError`."""
        return read_grants(self._layout)

    def read_register(self) -> Register:
        """All repositories, without the lock; raises `UntrustedError`."""
        return read_register(self._layout)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Read and change under the lock.

        Raises `BusyError` when another process keeps it, and `UntrustedError` when a file cannot be
        trusted: nothing is changed then.
        """
        now = utc_now()
        with machine_lock(self._layout.grants_lock, now, self._lock_timeout):
            # The wait may have been long: the change happens now.
            yield Transaction(self._layout, utc_now())


def _affected(before: State, after: State) -> list[Repository]:
    """The repositories whose view of the specs a change concerns."""
    return [
        repository
        for repository in after.register.repositories
        if before.grants.of(repository.guid) != after.grants.of(repository.guid)
        or repository.slug not in before.register.by_slug
    ]


def _is_full(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}


def remove_leftovers(directory: Path, name: str) -> None:
    """Remove what killed writers of `name` left in `directory`: under the lock, nobody else is writing."""
    for leftover in directory.glob(f".{name}.*.tmp"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def grants_document(grants: Grants, standing: Grants | None = None) -> bytes:
    """The content of the file that states `grants`; what is in `standing` too has been checked."""
    records = grants.to_records()
    known = standing.by_guid if standing else {}
    changed = {guid: own for guid, own in records.items() if grants.by_guid[guid] is not known.get(guid)}
    return encode(_document("grants", records), Kind.GRANTS, _document("grants", changed))


def register_document(register: Register, standing: Register | None = None) -> bytes:
    """The content of the file that states `register`; what is in `standing` too has been checked."""
    records = register.to_records()
    known = standing.by_guid if standing else {}
    changed = {guid: one for guid, one in records.items() if register.by_guid[guid] is not known.get(guid)}
    return encode(_document("repositories", records), Kind.REPOSITORIES, _document("repositories", changed))


def _document(section: str, records: Mapping[str, object]) -> dict[str, object]:
    return {"version": VERSION, section: records}

"""The machine's grants and repositories on disk: read without a lock, changed under it.

* A reader sees a whole file, the old or the new one: writers replace it by a rename.
* A writer reads, checks and writes under the machine's one lock, so that no two changes miss each other.
* What cannot be trusted is never overwritten: reading it raises, and a change begins by reading.
* A file that is not there holds nothing: a machine begins without grants.
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import cast

from grants_cli.documents import VERSION, Kind, encode, read_document, untrusted
from grants_cli.grants import GrantRecord, Grants
from grants_cli.lock import TIMEOUT, machine_lock
from grants_cli.register import Register, RepositoryRecord
from grants_cli.times import utc_now
from spec.errors import StorageError
from spec.files import CachedFile, replace_file
from spec.layout import Layout

_MODE = 0o600


def read_grants(layout: Layout) -> Grants:
    """All grants of the machine; raises `UntrustedError`."""
    document = read_document(layout.grants, Kind.GRANTS)
    if document is None:
        return Grants()
    try:
        return Grants.from_records(cast(Mapping[str, list[GrantRecord]], document["grants"]))
    except ValueError as error:
        raise untrusted(layout.grants, str(error)) from error


def read_register(layout: Layout) -> Register:
    """All repositories of the machine; raises `UntrustedError`."""
    document = read_document(layout.register, Kind.REPOSITORIES)
    if document is None:
        return Register()
    try:
        return Register.from_records(cast(Mapping[str, RepositoryRecord], document["repositories"]))
    except ValueError as error:
        raise untrusted(layout.register, str(error)) from error


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

    def save_grants(self, grants: Grants) -> None:
        """Make `grants` the machine's, without those that have expired; raises `StorageError`."""
        grants = grants.swept(self.now)
        document: dict[str, object] = {"version": VERSION, "grants": grants.to_records()}
        _replace(self._layout.grants, encode(document, Kind.GRANTS))
        self.grants = grants

    def save_register(self, register: Register) -> None:
        """Make `register` the machine's repositories; raises `StorageError`."""
        document: dict[str, object] = {"version": VERSION, "repositories": register.to_records()}
        _replace(self._layout.register, encode(document, Kind.REPOSITORIES))
        self.register = register


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


def _replace(path: Path, content: bytes) -> None:
    try:
        replace_file(path, content, _MODE)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}; it is as it was",
            "make room or make it writable, then repeat the command",
        ) from error

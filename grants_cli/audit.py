"""The audit log: one line for every change of grants and repositories, never rewritten.

A line is on the disk before the change happens. A crash in between leaves a line for a change that did
not happen, never a change without its line; a change that fails is followed by a line that says so.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from grants_cli.grants import Grants
from grants_cli.operator import operator_name, operator_uid
from grants_cli.register import Register
from grants_cli.times import to_text
from spec.errors import StorageError
from spec.files import sync_directory

Entry = dict[str, object]


@dataclass(frozen=True)
class State:
    """What the machine's files say together."""

    grants: Grants
    register: Register


def entry(action: str, now: datetime, generation: int, before: State, after: State) -> Entry:
    """The line for a change from `before` to `after`: who, what, when, and both sides of it."""
    return {
        "time": to_text(now),
        "action": action,
        "operator": operator_name(),
        "uid": operator_uid(),
        "pid": os.getpid(),
        "command": sys.argv[1:],
        "generation": generation,
        "grants": list(_grants(before, after)),
        "repositories": list(_repositories(before.register, after.register)),
    }


def failure(line: Entry, problem: str) -> Entry:
    """The line that follows `line` when its change did not happen."""
    return {
        **{key: line[key] for key in ("time", "action", "operator", "uid", "generation")},
        "failed": problem,
    }


def append(path: Path, line: Entry) -> None:
    """Add `line` to the log at `path` and wait until it is on the disk; raises `StorageError`.

    A line that a full disk or a crash cut off is ended first, so that it spoils no other.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = not path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            data = b"\n" * torn + json.dumps(line, ensure_ascii=False).encode() + b"\n"
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if made:
            sync_directory(path.parent)
    except OSError as error:
        raise StorageError(
            f"cannot write the audit log {path}: {error.strerror}; nothing has changed",
            "make room or make it writable, then repeat the command",
        ) from error


def read(path: Path) -> Iterator[Entry]:
    """The lines of the log at `path`, oldest first; torn ones are left out."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            with suppress(ValueError):
                decoded: object = json.loads(line)
                if isinstance(decoded, dict):
                    yield cast(Entry, decoded)


def _grants(before: State, after: State) -> Iterator[Entry]:
    for guid in sorted({*before.grants.by_guid, *after.grants.by_guid}):
        old, new = before.grants.of(guid), after.grants.of(guid)
        if old != new:
            repository = before.register.by_guid.get(guid) or after.register.by_guid.get(guid)
            yield {
                "guid": guid,
                "repository": str(repository.ref) if repository else None,
                "before": [grant.to_record() for grant in old],
                "after": [grant.to_record() for grant in new],
            }


def _repositories(before: Register, after: Register) -> Iterator[Entry]:
    for guid in sorted({*before.by_guid, *after.by_guid}):
        old, new = before.by_guid.get(guid), after.by_guid.get(guid)
        if old != new:
            yield {
                "guid": guid,
                "before": old.to_record() if old else None,
                "after": new.to_record() if new else None,
            }

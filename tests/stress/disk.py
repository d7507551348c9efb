"""A disk with room for only a part of a write, for every size of that part; and a read-only file system.

The file is the old or the new one, the message says what happened, and the next command works. It needs a
file system of its own, which it mounts in a mount namespace: ``unshare --mount python -m tests.stress.disk``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from grants_cli import audit
from grants_cli.generations import KEEP
from grants_cli.grants import Grant
from grants_cli.recovery import inspect
from grants_cli.register import Repository
from grants_cli.store import GrantStore, read_grants
from grants_cli.times import utc_now
from spec.errors import StorageError
from spec.layout import Layout
from tests.stress.machine import make

_PAGE = 4096
_SIZE = 1024 * _PAGE


@dataclass
class Outcome:
    """What happened to the writes."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    messages: Counter[str] = field(default_factory=Counter)


class Disk:
    """A small tmpfs at `root`, which can be filled up to a number of free pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"
        self._mount("-t", "tmpfs", "-o", f"size={_SIZE}", "stress", str(root))

    def fill(self, free_pages: int) -> None:
        """Leave exactly `free_pages` free."""
        self.empty()
        with self._filler.open("wb", buffering=0) as file:
            state = os.statvfs(self.root)
            file.write(b"x" * (state.f_bfree - free_pages) * state.f_bsize)

    def empty(self) -> None:
        """Take the filler away."""
        self._filler.unlink(missing_ok=True)

    def remount(self, mode: str) -> None:
        """Make it read-only (``ro``) or writable (``rw``)."""
        self._mount("-o", f"remount,{mode}", str(self.root))

    @staticmethod
    def _mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments], check=True)


def _grants(count: int, author: str) -> list[Grant]:
    return [Grant(f"nvidia.com/gpu={index}", False, utc_now(), author) for index in range(count)]


def _write(layout: Layout, repository: Repository, grants: list[Grant]) -> None:
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("stress", transaction.grants.replaced(repository.guid, grants))


def _check(layout: Layout, outcome: Outcome, expected: list[tuple[Grant, ...]], guid: str, what: str) -> None:
    outcome.problems += [report.problem for report in inspect(layout) if report.problem]
    if read_grants(layout).of(guid) not in expected:
        outcome.problems.append(f"{what}: the file is neither the old nor the new one")
    for line in audit.read(layout.audit_log):
        if not isinstance(line.get("time"), str):
            outcome.problems.append(f"{what}: the audit log is spoilt")


def full(disk: Disk, layout: Layout, repository: Repository, outcome: Outcome) -> None:
    """Write with 0, 1, 2, … free pages until it succeeds several times in a row."""
    succeeded, free = 0, 0
    while succeeded < 3 and free < 64:
        # The file is several pages long, so that every part of the write can hit the end of the disk.
        new = tuple(sorted(_grants(80, f"free-{free}"), key=lambda grant: grant.device))
        old = read_grants(layout).of(repository.guid)
        disk.fill(free)
        try:
            _write(layout, repository, list(new))
            succeeded += 1
            outcome.counts["written"] += 1
            expected = [new]
        except StorageError as error:
            succeeded = 0
            outcome.counts["refused"] += 1
            outcome.messages[error.message.replace(str(disk.root), "")] += 1
            expected = [old]
            if "No space left on device" not in error.message:
                outcome.problems.append(f"the message does not say that the disk is full: {error.message}")
        _check(layout, outcome, expected, repository.guid, f"{free} free pages")
        disk.empty()
        free += 1
    if succeeded < 3:
        outcome.problems.append("no write succeeded, however much room there was")
    last = _grants(5, "after")
    _write(layout, repository, last)
    _check(layout, outcome, [tuple(last)], repository.guid, "after the disk was full")


def revoke_without_room(disk: Disk, layout: Layout, repository: Repository, outcome: Outcome) -> None:
    """Who fills the disk keeps no device by that: what is kept of older states makes room."""
    for number in range(KEEP):
        _write(layout, repository, _grants(80, f"older-{number}"))
    disk.fill(0)
    try:
        _write(layout, repository, [])
        outcome.counts["revoked without room"] += 1
    except StorageError as error:
        outcome.problems.append(f"no revocation on a full disk: {error.message}")
    _check(layout, outcome, [()], repository.guid, "revoked on a full disk")
    disk.empty()
    _write(layout, repository, _grants(5, "after"))


def read_only(disk: Disk, layout: Layout, outcome: Outcome) -> None:
    """Every command that reads works, one that writes says why it cannot, and the next one works."""
    before = layout.grants.read_bytes()
    disk.remount("ro")
    for words, status in ((["grants", "r0"], 0), (["list"], 0), (["check"], 0)):
        done = _renet(layout, *words)
        if done.returncode != status:
            outcome.problems.append(f"read-only, renet gpu {' '.join(words)}: {done.stderr}")
    refused = _renet(layout, "revoke", "r0", "--all")
    outcome.messages[refused.stderr.splitlines()[0].replace(str(disk.root), "")] += 1
    if refused.returncode != 1 or "Read-only file system" not in refused.stderr:
        outcome.problems.append(f"read-only, a change ended with {refused.returncode}: {refused.stderr}")
    if layout.grants.read_bytes() != before:
        outcome.problems.append("the file on a read-only file system has changed")
    disk.remount("rw")
    done = _renet(layout, "revoke", "r0", "--all")
    if done.returncode != 0 or read_grants(layout).by_guid:
        outcome.problems.append(f"writable again, and the next command failed: {done.stderr}")
    outcome.counts["read-only"] += 1


def _renet(layout: Layout, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "machine_setup.renet", "--root", str(layout.root), "gpu", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run(root: Path) -> Outcome:
    """Fill and lock a disk that is mounted at `root`; needs to be root in a mount namespace of its own."""
    outcome = Outcome()
    disk = Disk(root)
    layout, (repository,) = make(root, 1)
    _write(layout, repository, _grants(80, "first"))
    full(disk, layout, repository, outcome)
    revoke_without_room(disk, layout, repository, outcome)
    read_only(disk, layout, outcome)
    return outcome


def main() -> None:
    """Run it and print what was found."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as root:
        try:
            outcome = run(Path(root))
        finally:
            subprocess.run(["umount", root], check=False)
    print(", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items())))
    for message, count in outcome.messages.most_common():
        print(f"{count} x {message}")
    for problem in outcome.problems[:20]:
        print(f"PROBLEM: {problem}")
    raise SystemExit(bool(outcome.problems))


if __name__ == "__main__":
    main()

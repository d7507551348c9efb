"""kill -9 at a random moment of every write: the file is the old or the new one, and the next write works."""

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from grants_cli import audit
from grants_cli.grants import Grant
from grants_cli.recovery import inspect
from grants_cli.register import Repository
from grants_cli.store import GrantStore, read_grants
from grants_cli.times import utc_now
from spec.layout import Layout
from tests.stress.machine import make


@dataclass
class Outcome:
    """What the files were after the kills."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def _write(layout: Layout, repository: Repository, number: int) -> None:
    grants = [Grant(f"nvidia.com/gpu={index}", False, utc_now(), f"write-{number}") for index in range(5)]
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("stress", transaction.grants.replaced(repository.guid, grants))


def _last_write(layout: Layout, repository: Repository) -> int:
    """The number of the write whose outcome the file is; raises `ValueError` when it is none's."""
    authors = {grant.granted_by for grant in read_grants(layout).of(repository.guid)}
    (author,) = authors
    return int(author.removeprefix("write-"))


def _killed_write(layout: Layout, repository: Repository, number: int, delay: float) -> bool:
    """Write in a process that is killed after `delay` seconds; whether the kill came before its end."""
    child = os.fork()
    if child == 0:
        try:
            _write(layout, repository, number)
        finally:
            os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def run(root: Path, writes: int) -> Outcome:
    """Do `writes` writes below `root`, each killed at a random moment of its usual duration."""
    layout, (repository,) = make(root, 1)
    outcome = Outcome()
    _write(layout, repository, 0)
    started = time.perf_counter()
    for number in range(1, 11):
        _write(layout, repository, number)
    usual = (time.perf_counter() - started) / 10
    last = 10
    for number in range(11, writes + 11):
        killed = _killed_write(layout, repository, number, random.uniform(0, usual * 2))
        problems = [report.problem for report in inspect(layout) if report.problem]
        if problems:
            outcome.problems += problems
            break
        found = _last_write(layout, repository)
        if found not in {last, number} or (not killed and found != number):
            outcome.problems.append(f"after write {number} upon {last} the file is that of write {found}")
        outcome.counts["the new file" if found == number else "the old file"] += 1
        outcome.counts["killed"] += killed
        last = found
    _write(layout, repository, writes + 11)
    if _last_write(layout, repository) != writes + 11:
        outcome.problems.append("the command after the last kill did not work")
    outcome.problems += _leftovers(layout)
    return outcome


def _leftovers(layout: Layout) -> list[str]:
    """What killed writers must not leave behind after the next write, and a log that they must not spoil."""
    stray = [str(path) for path in layout.root.rglob(".*.tmp")]
    recorded = {
        author
        for line in audit.read(layout.audit_log)
        for change in line["grants"]  # type: ignore[attr-defined]
        for author in (grant["grantedBy"] for grant in change["after"])
    }
    written = {grant.granted_by for own in read_grants(layout).by_guid.values() for grant in own}
    problems = [f"left behind: {path}" for path in stray]
    return problems + [f"{author} is in no line of the audit log" for author in written - recorded]


def main() -> None:
    """Run it and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        outcome = run(Path(root), options.writes)
    print(", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items())))
    for problem in outcome.problems[:20]:
        print(f"PROBLEM: {problem}")
    raise SystemExit(bool(outcome.problems))


if __name__ == "__main__":
    main()

"""The short form of each stress script; the long one is marked slow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress import contention, crash, scale

CHECKOUT = Path(__file__).parents[3]


def test_an_exclusive_gpu_never_has_two_holders(tmp_path: Path) -> None:
    outcome = contention.run(tmp_path, processes=6, seconds=1)
    assert outcome.problems == []
    assert min(outcome.counts[what] for what in ("granted", "reads")) > 0
    assert len(outcome.durations) >= 60


@pytest.mark.slow
def test_an_exclusive_gpu_never_has_two_holders_with_64_processes_for_a_minute(tmp_path: Path) -> None:
    outcome = contention.run(tmp_path, processes=64, seconds=60)
    assert outcome.problems == []
    assert min(outcome.counts[what] for what in ("granted", "refused", "revoked", "reads")) > 0


def test_a_killed_write_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    outcome = crash.run(tmp_path, writes=60)
    assert outcome.problems == []
    assert outcome.counts["killed"] > 0


@pytest.mark.slow
def test_2000_killed_writes_leave_the_old_or_the_new_file(tmp_path: Path) -> None:
    outcome = crash.run(tmp_path, writes=2000)
    assert outcome.problems == []
    assert outcome.counts["killed"] > 500


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root; CI has it")
def test_a_full_disk_and_a_read_only_one_lose_nothing() -> None:
    command = ["unshare", "--mount", sys.executable, "-m", "tests.stress.disk"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert "PROBLEM" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stderr
    assert "x cannot write the audit log /var/log/rediacc/audit.jsonl: No space left on device" in done.stdout
    assert (
        "x cannot write /etc/rediacc/gpu/grants.json: No space left on device; it is as it was" in done.stdout
    )
    assert "cannot take the lock /etc/rediacc/gpu/grants.lock: Read-only file system" in done.stdout


def test_what_a_thousand_repositories_add(tmp_path: Path) -> None:
    few = scale.run(tmp_path / "few", 10, times=2)
    many = scale.run(tmp_path / "many", 1000, times=2)
    assert few.noticed
    assert many.noticed
    assert many.request < 2 * few.request
    # Processor time, and generously: other work on the computer lengthens it too.
    assert many.grant.processor - few.grant.processor < 0.25
    assert many.revoke.processor - few.revoke.processor < 0.25
    assert many.listing.processor - few.listing.processor < 0.35


@pytest.mark.slow
def test_a_thousand_repositories_keep_no_operator_waiting(tmp_path: Path) -> None:
    # On a computer that is busy with other things the clock tells nothing of ours, and what shares a core
    # with us lengthens our processor time too.
    idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    outcome = scale.run(tmp_path, 1000, times=5)
    grant, revoke, listing = (
        cost.wall if idle else cost.processor / 1.5
        for cost in (outcome.grant, outcome.revoke, outcome.listing)
    )
    assert max(grant, revoke) < 0.3
    assert listing < 0.5
    assert outcome.request_after_change < 0.3

"""One writer at a time; who waits is told for whom."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grants_cli.store import GrantStore
from spec.errors import BusyError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import register

REPOSITORY_ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from grants_cli.store import GrantStore
from spec.layout import Layout
with GrantStore(Layout.at(sys.argv[1])).transaction():
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(layout: Layout) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(layout.root), "the-holder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY_ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_who_waits_too_long_is_told_who_holds_the_lock(layout: Layout) -> None:
    with holder(layout) as process:
        with (
            pytest.raises(
                BusyError, match=rf"the-holder \(process {process.pid}, by \S+, since 20\S+Z\)"
            ) as error,
            GrantStore(layout, lock_timeout=0.2).transaction(),
        ):
            pass
        assert error.value.exit_status == 15
        process.communicate(b"")
    with GrantStore(layout, lock_timeout=0.2).transaction():
        pass


def test_a_killed_holder_holds_nothing(layout: Layout) -> None:
    with holder(layout) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with GrantStore(layout, lock_timeout=0.2).transaction():
        pass


def test_readers_do_not_wait(layout: Layout) -> None:
    repository = register(layout, "gpu-a")
    with holder(layout) as process:
        assert GrantStore(layout).read_register().get("gpu-a") == repository
        assert GrantStore(layout).read().by_guid == {}
        process.communicate(b"")


def test_an_exception_lets_go_and_changes_nothing(layout: Layout) -> None:
    register(layout, "gpu-a")
    before = layout.register.read_bytes()
    with pytest.raises(ZeroDivisionError), GrantStore(layout).transaction() as transaction:
        transaction.now.replace(year=1 // 0)
    assert layout.register.read_bytes() == before
    register(layout, "gpu-b")

"""Every attempt twice on a real dockerd: without the gate it gets out, with the gate it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.attacker import REACHED, Attacker, logged
from tests.engine.daemon import Daemon
from tests.engine.escapes import ATTEMPTS, Attempt
from tests.engine.machine import Machine
from tests.engine.obtain import Engine
from tests.engine.ways import hides_large_bodies

CLOSED = {"device": False, "security-insecure": False}
IDS = [attempt.id for attempt in ATTEMPTS]


@pytest.fixture(scope="module")
def machine(engine: Engine) -> Iterator[Machine]:
    """A machine with one repository that has no grant."""
    with Machine(engine) as machine:
        yield machine


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the tenant's own, in an ordinary place."""
    return tmp_path_factory.mktemp("tenant")


@pytest.fixture(scope="module")
def gated(machine: Machine, files: Path) -> Attacker:
    """The tenant of the repository behind the gate."""
    daemon = machine.add_repository("tenant", {"builder": {"entitlements": CLOSED}})
    machine.start_gate()
    daemon.start()
    daemon.load_image()
    return Attacker(daemon, machine.layout, files)


@pytest.fixture(scope="module")
def free(plain_daemon: Daemon, machine: Machine, files: Path) -> Attacker:
    """The same tenant with a daemon that no gate stands before."""
    return Attacker(plain_daemon, machine.layout, files)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=IDS)
def test_without_the_gate(attempt: Attempt, free: Attacker) -> None:
    said = attempt.act(free)
    assert (REACHED in said) == (not attempt.harmless), said[-2000:]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=IDS)
def test_with_the_gate(attempt: Attempt, gated: Attacker) -> None:
    said = attempt.act(gated)
    assert REACHED not in said, said[-2000:]
    assert "authorization denied by plugin rediacc-tenant" in said
    # The message that the tenant reads carries the id of its line.
    hidden = attempt.large and hides_large_bodies(gated)
    assert logged(gated.layout, said)["rule"] == ("unreadable-request" if hidden else attempt.rule)


def test_there_are_enough() -> None:
    assert len(set(IDS)) == len(ATTEMPTS) >= 60

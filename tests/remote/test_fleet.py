"""Three machines, each with a network of its own; one of them goes silent."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.remote.conftest import NewMachine
from tests.remote.machine import Machine, Operator
from tests.remote.names import add, adopt, put_devices
from tests.remote.network import Network, network

DEVICE = "example.com/gpu=0"


@dataclass
class Fleet:
    """Machines m1, m2 and m3, and an operator with a link to each."""

    somebody: Operator
    machines: dict[str, Machine]
    network: Network


@pytest.fixture
def fleet(installed: NewMachine, somebody: Operator) -> Iterator[Fleet]:
    with network(3) as net:
        somebody.namespace = net.operator
        machines = {}
        for number, (address, namespace) in enumerate(net.machines.items(), 1):
            there = installed(namespace=namespace, address=address)
            put_devices(there)
            add(somebody, f"m{number}", there, "root" if number == 2 else "gpuops")
            machines[f"m{number}"] = there
        yield Fleet(somebody, machines, net)


def test_three_machines(fleet: Fleet) -> None:
    rdc = fleet.somebody.rdc
    for name in ("only@m1", "both@m1", "both@m2"):
        adopt(fleet.somebody, name)

    # The only machine that has it, several, a contradiction, nowhere.
    assert rdc("repo", "gpu", "grant", "only", "--device", DEVICE).returncode == 0
    several = rdc("repo", "gpu", "list", "both")
    assert several.returncode == 11
    assert "m1, m2" in several.stderr
    elsewhere = rdc("repo", "gpu", "grant", "only@m2", "--device", DEVICE)
    assert elsewhere.returncode == 12
    assert "m2" in elsewhere.stderr
    assert "m1 has it" in elsewhere.stderr
    assert rdc("repo", "gpu", "list", "none").returncode == 5
    assert rdc("repo", "gpu", "list", "none@m1").returncode == 5

    # All at once, and grants as they stand now.
    table = rdc("gpu", "list")
    assert table.returncode == 0, table
    assert [line for line in table.stdout.splitlines() if DEVICE in line and "only" in line]
    assert table.stdout.count(DEVICE) == 3
    listed = json.loads(rdc("repo", "list", "-o", "json").stdout)
    assert [(one["machine"], one["ok"]) for one in listed["data"]] == [
        ("m1", True),
        ("m2", True),
        ("m3", True),
    ]

    # Names that machines told are completed without asking them again.
    words = rdc(_RDC_COMPLETE="bash_complete", COMP_WORDS="rdc repo gpu list o", COMP_CWORD="4").stdout
    assert words.split() == ["plain,only"]

    _one_goes_silent(fleet)


def _one_goes_silent(fleet: Fleet) -> None:
    """m3 is cut off while it works; the connection to it was open and is kept for reuse."""
    stuck = "#!/bin/sh\ntouch /var/lib/started\nexec sleep 100\n"
    silent = fleet.machines["m3"]
    silent.run("rm", "/usr/local/bin/renet")
    silent.put("/usr/local/bin/renet", stuck, 0o755)
    begun = time.monotonic()
    listing = fleet.somebody.start("repo", "list", "--timeout", "6")
    assert listing.stdout
    first = [listing.stdout.readline() for _ in range(4)]
    answered = time.monotonic() - begun
    while not silent.exists("/var/lib/started"):
        time.sleep(0.05)
    fleet.network.silence(silent.address)
    rest, messages = listing.communicate(timeout=30)
    took = time.monotonic() - begun
    assert answered < 5, (answered, first)
    assert "both" in "".join([*first, rest])
    assert listing.returncode == 6, messages
    assert "m3 has not answered within 6 seconds" in messages
    assert "1 of 3 machines failed: m3" in messages
    assert took < 10

    # A command over the dead connection: as bounded, and the others' answers complete.
    answer = fleet.somebody.rdc("repo", "list", "--all", "--timeout", "3", "-o", "json")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["ok"], document["error"]["code"]) == (6, False, "machines-failed")
    assert [one["ok"] for one in document["data"]] == [True, True, False]
    assert document["data"][2]["error"]["code"] == "timed-out"

    # What changes something and finds no answer says that it does not know.
    change = fleet.somebody.rdc("repo", "gpu", "revoke", "gpu@m3", "--all", "--timeout", "3", "-o", "json")
    assert (change.returncode, json.loads(change.stdout)["error"]["code"]) == (6, "outcome-unknown")
    assert "rdc repo gpu list gpu@m3" in json.loads(change.stdout)["error"]["hint"]
    # Without @machine a change waits for all to say what they have: the silent one may have it too.
    unsure = fleet.somebody.rdc("repo", "gpu", "revoke", "only", "--all")
    assert (unsure.returncode, "only@m1" in unsure.stderr) == (6, True)
    # ssh itself notices within its 15 seconds that nobody is there.
    noticed = time.monotonic()
    lost = fleet.somebody.rdc("repo", "list", "m3", "--timeout", "60")
    assert lost.returncode == 6
    assert time.monotonic() - noticed < 30

"""A thousand repositories with five grants each: what commands and the gate take."""

import argparse
import base64
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grants_cli.grants import Grant, Grants
from grants_cli.register import Repository
from grants_cli.store import GrantStore, grants_document
from grants_cli.times import utc_now
from plugin.gate import Gate
from plugin.journal import Entry, Journal
from spec.files import replace_file
from spec.layout import Layout
from tests.stress.machine import make
from tests.unit.grants_cli.specs import CONTROL, write_spec

_GPUS = 8
_EACH = 5


@dataclass(frozen=True)
class Cost:
    """Seconds that a command took by the clock, and of processor time, which is its own alone."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Outcome:
    """All in seconds, the best of several runs."""

    grant: Cost
    revoke: Cost
    listing: Cost
    #: A request to the gate, while nothing changes.
    request: float
    #: The first request after a change, which reads the file again.
    request_after_change: float
    #: Whether that request was judged by the change.
    noticed: bool


def fill(root: Path, repositories: int) -> tuple[Layout, tuple[Repository, ...]]:
    """A machine whose every repository holds five devices."""
    layout, tenants = make(root, repositories)
    devices = {str(number): [f"/dev/nvidia{number}"] for number in range(_GPUS)}
    write_spec(layout, "nvidia.com/gpu", devices, CONTROL)
    own = tuple(Grant(f"nvidia.com/gpu={number}", False, utc_now(), "stress") for number in range(_EACH))
    # Not by a transaction: that would write a thousand views first.
    replace_file(layout.grants, grants_document(Grants({tenant.guid: own for tenant in tenants})), 0o600)
    return layout, tenants


def _renet(layout: Layout, *words: str) -> Cost:
    command = [sys.executable, "-m", "machine_setup.renet", "--root", str(layout.root), "gpu", *words]
    # Modules are compiled once, as an installation compiles them.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(layout.root / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started, before = time.perf_counter(), _children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return Cost(time.perf_counter() - started, _children() - before)


def _least(costs: list[Cost]) -> Cost:
    return Cost(min(cost.wall for cost in costs), min(cost.processor for cost in costs))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _message(device: str) -> bytes:
    """The authorization message of a container that asks for `device`."""
    body = {
        "Image": "busybox",
        "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [device]}]},
    }
    return json.dumps(
        {
            "RequestMethod": "POST",
            "RequestUri": "/v1.47/containers/create",
            "RequestBody": base64.b64encode(json.dumps(body).encode()).decode(),
            "RequestHeaders": {"Content-Type": "application/json"},
        }
    ).encode()


def _best(times: int, action: Callable[[], object]) -> float:
    durations = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        durations.append(time.perf_counter() - started)
    return min(durations)


class _NoLog(Journal):
    """Leaves the decision log out: how long its line takes does not depend on the number of grants."""

    def write(self, line: Entry) -> None:
        """Write nothing."""


def gate_costs(layout: Layout, tenant: Repository, times: int) -> tuple[float, float, bool]:
    """A request while nothing changes, the first one after a change, and whether that one noticed."""
    gate = Gate(layout, journal=_NoLog(layout.gate_log))
    socket, device = str(layout.plugin_socket(tenant.slug)), f"nvidia.com/gpu={_GPUS - 1}"
    message = _message(device)
    gate.judge(socket, message)
    quiet = _best(times * 20, lambda: gate.judge(socket, message))
    changed, noticed = [], True
    for _ in range(times):
        for grants in ((Grant(device, False, utc_now(), "stress"),), ()):
            with GrantStore(layout).transaction() as transaction:
                transaction.commit("stress", transaction.grants.replaced(tenant.guid, grants))
            started = time.perf_counter()
            decision = gate.judge(socket, message)
            changed.append(time.perf_counter() - started)
            noticed = noticed and decision.allow == bool(grants)
    return quiet, min(changed), noticed


def run(root: Path, repositories: int, times: int) -> Outcome:
    """Measure on a machine of `repositories` below `root`, each thing `times` times."""
    layout, tenants = fill(root, repositories)
    spare = f"nvidia.com/gpu={_GPUS - 2}"
    grants, revokes = [], []
    for _ in range(times):
        grants.append(_renet(layout, "grant", "r1", "--device", spare))
        revokes.append(_renet(layout, "revoke", "r1", "--device", spare))
    listing = [_renet(layout, "list") for _ in range(times)]
    return Outcome(_least(grants), _least(revokes), _least(listing), *gate_costs(layout, tenants[0], times))


def main() -> None:
    """Run it and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=int, default=1000)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        few = gate_costs(*_first(fill(Path(root) / "few", 10)), options.times)
        many = run(Path(root) / "many", options.repositories, options.times)
    for name, cost in (("grant", many.grant), ("revoke", many.revoke), ("list", many.listing)):
        print(f"renet gpu {name}: {cost.wall:.3f} s ({cost.processor:.3f} s of processor time)")
    print(f"a request to the gate: {many.request * 1e6:.0f} µs; with 10 repositories {few[0] * 1e6:.0f} µs")
    after = many.request_after_change * 1e3
    print(f"the first request after a change: {after:.1f} ms; it was judged by the change: {many.noticed}")


def _first(filled: tuple[Layout, tuple[Repository, ...]]) -> tuple[Layout, Repository]:
    return filled[0], filled[1][0]


if __name__ == "__main__":
    main()

"""What an operator is told of containers that hold a device, and that --stop ends them for good."""

import json
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.daemon import Daemon
from tests.engine.image import IMAGE
from tests.engine.machine import Machine
from tests.engine.obtain import Engine

GPU = "nvidia.com/gpu=0"
OTHER = "nvidia.com/gpu=1"


@pytest.fixture
def name() -> str:
    return f"grants-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def machine(engine: Engine) -> Iterator[Machine]:
    with Machine(engine) as machine:
        yield machine


@pytest.fixture
def daemon(machine: Machine, name: str) -> Daemon:
    daemon = machine.add_repository(name)
    machine.start_gate()
    daemon.start()
    daemon.load_image()
    return daemon


def answer(machine: Machine, *words: str) -> Any:
    return json.loads(machine.renet("gpu", *words, "-o", "json").stdout)["data"]


def run(daemon: Daemon, name: str, *options: str, device: str = "") -> None:
    devices = ["--device", device] if device else []
    daemon.docker("run", "-d", "--name", name, "--stop-timeout=1", *options, *devices, IMAGE, "sleep", "600")


def state(daemon: Daemon, name: str) -> tuple[str, str]:
    shown = daemon.docker("inspect", name, "--format", "{{.State.Status}} {{.HostConfig.RestartPolicy.Name}}")
    status, policy = shown.stdout.split()
    return status, policy


def test_revoking_names_and_stops_what_holds_the_device(machine: Machine, daemon: Daemon, name: str) -> None:
    machine.renet("gpu", "grant", name, "--device", GPU, "--device", OTHER)
    run(daemon, "web", "--restart=always", device=GPU)
    run(daemon, "batch", "--restart=unless-stopped", device=GPU)
    daemon.docker("stop", "batch")
    run(daemon, "other", device=OTHER)
    run(daemon, "idle", "--restart=always")

    (holder,) = answer(machine, "who", GPU)["holders"]
    assert (holder["repository"], holder["live"], holder["running"]) == (name, True, ["web"])
    listed = machine.renet("gpu", "list").stdout
    assert any(line.split()[:2] == [OTHER, name] and line.endswith("other") for line in listed.splitlines())

    would = answer(machine, "revoke", name, "--device", GPU, "--stop", "--dry-run")
    assert (would["revoked"], would["containers"], would["stopped"]) == ([GPU], ["web"], [])
    assert state(daemon, "web") == ("running", "always")

    revoked = machine.renet("gpu", "revoke", name, "--device", GPU)
    assert f"web of {name} holds it until it stops" in revoked.stderr
    assert f"batch of {name} does not run, and its restart policy can bring it back" in revoked.stderr
    assert state(daemon, "web") == ("running", "always")
    (holder,) = answer(machine, "who", GPU)["holders"]
    assert (holder["granted"], holder["live"], holder["running"]) == (False, False, ["web"])

    again = answer(machine, "revoke", name, "--device", GPU, "--stop")
    assert (again["revoked"], again["already"], again["stopped"]) == ([], [GPU], ["web"])
    assert state(daemon, "web") == ("exited", "no")
    assert state(daemon, "batch") == ("exited", "no")
    assert state(daemon, "other") == ("running", "no")
    assert state(daemon, "idle") == ("running", "always")
    assert answer(machine, "who", GPU)["holders"] == []

    stopped = answer(machine, "revoke", name, "--all", "--stop")
    assert (stopped["revoked"], stopped["stopped"]) == ([OTHER], ["other"])
    daemon.restart()
    assert {each: state(daemon, each)[0] for each in ("web", "batch", "other", "idle")} == {
        "web": "exited",
        "batch": "exited",
        "other": "exited",
        "idle": "running",
    }


def test_a_daemon_that_does_not_answer_keeps_no_list_waiting(
    machine: Machine, daemon: Daemon, name: str
) -> None:
    machine.renet("gpu", "grant", name, "--device", GPU)
    run(daemon, "web", device=GPU)
    machine.stop_gate(signal.SIGKILL)
    started = time.monotonic()
    shown = machine.renet("gpu", "list")
    assert time.monotonic() - started < 8
    assert any(line.startswith(GPU) and line.endswith("?") for line in shown.stdout.splitlines())
    assert f"which containers run in {name} is not known" in shown.stderr
    refused = machine.renet("gpu", "revoke", name, "--device", GPU, "--stop", "-o", "json", check=False)
    assert refused.returncode == 6
    assert "the grants are gone, and the containers could not be stopped" in refused.stdout
    assert answer(machine, "grants", name) == []


def test_a_daemon_that_is_down_has_no_containers(machine: Machine, daemon: Daemon, name: str) -> None:
    machine.renet("gpu", "grant", name, "--device", GPU)
    daemon.stop()
    revoked = machine.renet("gpu", "revoke", name, "--device", GPU, "--stop")
    assert revoked.stdout == f"revoked {GPU} from {name}\n"

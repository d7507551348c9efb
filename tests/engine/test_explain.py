"""Explaining on a real machine: Compose resolves its file, the daemon is asked for its volumes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.engine.daemon import COMPOSE_WITH_CDI, Daemon
from tests.engine.image import IMAGE
from tests.engine.machine import Machine
from tests.engine.obtain import Engine

COMPOSE = """
x-gpu: &gpu
  deploy: {resources: {reservations: {devices: [{driver: nvidia, count: "${GPUS:-1}", capabilities: [gpu]}]}}}
services:
  train:
    <<: *gpu
    image: busybox
    command: open-device /dev/nvidia0
    privileged: ${PRIVILEGED:-true}
    volumes: ["./data:/data", "/dev:/dev", "models:/models"]
  web: {image: busybox, command: "true", profiles: [never]}
volumes:
  models: {driver_opts: {type: none, o: bind, device: /dev}}
"""


@pytest.fixture(scope="module")
def machine(engine: Engine) -> Iterator[Machine]:
    with Machine(engine) as machine:
        yield machine


@pytest.fixture(scope="module")
def daemon(machine: Machine) -> Daemon:
    daemon = machine.add_repository("tenant")
    machine.start_gate()
    daemon.start()
    daemon.load_image()
    machine.renet("gpu", "grant", "tenant", "--device", "nvidia.com/gpu=0")
    return daemon


def test_the_corrected_file_runs(machine: Machine, daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    written = tmp_path / "compose.yaml"
    written.write_text(COMPOSE)
    refused = daemon.docker("compose", "-f", str(written), "up", check=False, cwd=tmp_path)
    assert "authorization denied by plugin rediacc-tenant" in refused.stderr
    said = json.loads(machine.renet("gpu", "explain", "tenant", str(written), "-o", "json").stdout)["data"]
    rules = {problem["rule"] for request in said["requests"] for problem in request["problems"]}
    assert rules == {"device-request-form", "privileged", "bind-hardware"}
    keys = {problem["key"] for request in said["requests"] for problem in request["problems"]}
    assert "services.train.privileged" in keys
    assert "volumes.models.driver_opts" in keys
    better = tmp_path / "better.yaml"
    better.write_text(said["corrected"])
    assert yaml.safe_load(said["corrected"])["services"]["train"]["devices"] == ["nvidia.com/gpu=0"]
    assert json.loads(machine.renet("gpu", "explain", "tenant", str(better), "-o", "json").stdout)["data"][
        "allowed"
    ]
    done = daemon.docker("compose", "-f", str(better), "up", check=False, cwd=tmp_path)
    if daemon.compose_version() >= COMPOSE_WITH_CDI:
        assert "opened /dev/nvidia0" in done.stdout
    else:
        assert "docker compose to 2.30, or newer" in done.stderr
    daemon.docker("compose", "-f", str(better), "down", "-v", cwd=tmp_path)


def test_a_stored_container_is_explained_by_what_inspect_prints(machine: Machine, daemon: Daemon) -> None:
    daemon.docker("create", "--name", "job", "--device", "nvidia.com/gpu=0", "-v", "data:/d", IMAGE, "true")
    inspected = daemon.docker("inspect", "job").stdout
    said = machine.renet("gpu", "explain", "tenant", input=inspected).stdout
    assert said == "its start: allowed, with nvidia.com/gpu=0\n"
    machine.renet("gpu", "revoke", "tenant", "--device", "nvidia.com/gpu=0")
    said = machine.renet("gpu", "explain", "tenant", "-", input=inspected).stdout
    assert "its start: refused" in said
    assert "rdc repo gpu grant tenant --device nvidia.com/gpu=0" in said
    machine.renet("gpu", "grant", "tenant", "--device", "nvidia.com/gpu=0")
    daemon.docker("rm", "job")


def test_a_named_volume_is_asked_of_the_daemon(machine: Machine, daemon: Daemon) -> None:
    body = json.dumps({"Image": IMAGE, "HostConfig": {"Binds": ["data:/d"]}})
    assert machine.renet("gpu", "explain", "tenant", input=body).stdout == "the container: allowed\n"
    daemon.stop()
    said = machine.renet("gpu", "explain", "tenant", input=body).stdout
    assert "of which the daemon says nothing" in said
    daemon.start()

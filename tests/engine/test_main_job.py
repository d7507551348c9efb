"""The main job, on a real dockerd with the gate as its plugin: a grant opens one device, nothing else."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.engine.daemon import COMPOSE_WITH_CDI, Daemon
from tests.engine.machine import Machine
from tests.engine.obtain import Engine

REPOSITORY = "gpu-a"
ZERO, ONE, ALL = "nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all"


@dataclass(frozen=True)
class Gated:
    """One machine with one repository; the tests that share it restart neither daemon nor gate."""

    machine: Machine
    daemon: Daemon


@pytest.fixture(scope="module")
def gated(engine: Engine) -> Iterator[Gated]:
    with Machine(engine) as machine:
        daemon = machine.add_repository(REPOSITORY)
        machine.start_gate()
        daemon.start()
        daemon.load_image()
        yield Gated(machine, daemon)


@pytest.fixture(autouse=True)
def without_grants(gated: Gated) -> Iterator[None]:
    yield
    gated.machine.renet("gpu", "revoke", REPOSITORY, "--all")


def test_a_grant_opens_exactly_its_device_until_it_is_revoked(gated: Gated) -> None:
    def run(device: str, node: str) -> tuple[int, str]:
        done = gated.daemon.docker(
            "run", "--rm", "--device", device, "busybox", "open-device", node, check=False
        )
        return done.returncode, (done.stdout + done.stderr).strip()

    def is_refused(device: str) -> bool:
        status, said = run(device, "/dev/nvidia0")
        message = (
            f"authorization denied by plugin rediacc-{REPOSITORY}: repository {REPOSITORY} has no grant for "
            f"{device}. An operator can give it: rdc repo gpu grant {REPOSITORY} --device {device}"
        )
        return status == 125 and message in said

    pid = gated.daemon.pid
    assert is_refused(ZERO)
    gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ZERO)
    assert run(ZERO, "/dev/nvidia0") == (0, "opened /dev/nvidia0")
    assert is_refused(ONE)
    assert is_refused(ALL)
    gated.machine.renet("gpu", "revoke", REPOSITORY, "--device", ZERO)
    assert is_refused(ZERO)
    assert gated.daemon.pid == pid


@pytest.mark.parametrize(
    ("arguments", "rule_words"),
    [
        (
            ["--gpus", "all"],
            "--gpus and device reservations are refused on this machine. Use --device nvidia.com/gpu=",
        ),
        (["--runtime", "nvidia"], "--device nvidia.com/gpu="),
        (["--device", "/dev/fuse"], "--device nvidia.com/gpu="),
        (["--device-cgroup-rule", "c 10:229 rwm"], "--device nvidia.com/gpu="),
        (["--privileged"], "--device nvidia.com/gpu="),
        (["-v", "/dev:/dev"], "--device nvidia.com/gpu="),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("granted", [False, True], ids=["without-grant", "with-grant"])
def test_every_other_way_to_hardware_is_refused(
    gated: Gated, arguments: list[str], rule_words: str, granted: bool
) -> None:
    if granted:
        gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ALL)
    done = gated.daemon.docker("run", "--rm", *arguments, "busybox", "true", check=False)
    assert done.returncode == 125
    assert f"authorization denied by plugin rediacc-{REPOSITORY}: " in done.stderr
    assert rule_words in done.stderr


@pytest.mark.parametrize(
    "lines",
    [
        ["runtime: nvidia"],
        ["deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"],
        ["device_cgroup_rules: ['c 10:229 rwm']"],
        ["privileged: true"],
        ["devices: ['/dev/fuse:/dev/fuse']"],
    ],
    ids=lambda lines: lines[0].partition(":")[0],
)
def test_composes_ways_to_hardware_are_refused_with_the_cdi_form_named(
    gated: Gated, lines: list[str]
) -> None:
    gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ALL)
    done = gated.daemon.compose(_service(*lines), "up", "--no-start", check=False)
    assert done.returncode != 0
    assert f"authorization denied by plugin rediacc-{REPOSITORY}: " in done.stderr
    assert "nvidia.com/gpu=" in done.stderr


def test_composes_gpus_are_refused_with_the_cdi_form_named(gated: Gated) -> None:
    gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ALL)
    service = _service("gpus: all", "command: 'true'")
    done = gated.daemon.compose(service, "up", "--no-start", check=False)
    if gated.daemon.compose_version() >= COMPOSE_WITH_CDI:
        assert f"authorization denied by plugin rediacc-{REPOSITORY}: " in done.stderr
        assert "nvidia.com/gpu=" in done.stderr
    else:  # it leaves the key out of what it asks for
        form = "--format={{len .HostConfig.DeviceRequests}}"
        assert gated.daemon.docker("inspect", form, "project-job-1").stdout == "0\n"
        gated.daemon.compose(service, "down")


def test_composes_devices_work_with_a_grant(gated: Gated) -> None:
    service = _service(f"devices: ['{ZERO}']", "command: ['open-device', '/dev/nvidia0']")
    knows = gated.daemon.compose_version() >= COMPOSE_WITH_CDI
    refused = gated.daemon.compose(service, "run", "--rm", "job", check=False)
    assert (f"has no grant for {ZERO}" if knows else "docker compose to 2.30, or newer") in refused.stderr
    gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ZERO)
    granted = gated.daemon.compose(service, "run", "--rm", "job", check=False)
    assert ("opened /dev/nvidia0" in granted.stdout) == knows, granted.stderr


def test_privileged_exec_is_refused(gated: Gated) -> None:
    gated.daemon.docker("run", "-d", "--name", "held", "busybox", "sleep", "600")
    try:
        assert gated.daemon.docker("exec", "held", "echo", "plain").stdout == "plain\n"
        done = gated.daemon.docker("exec", "--privileged", "held", "true", check=False)
        assert "authorization denied" in done.stderr
    finally:
        gated.daemon.docker("rm", "-f", "held")


def test_a_misspelt_device_is_refused_with_the_near_misses(gated: Gated) -> None:
    done = gated.machine.renet("gpu", "grant", REPOSITORY, "--device", "nvidia.com/gpu=al", check=False)
    assert done.returncode == 5
    assert ALL in done.stderr
    refused = gated.daemon.docker("run", "--rm", "--device", ALL, "busybox", "true", check=False)
    assert f"has no grant for {ALL}" in refused.stderr


def test_a_damaged_grants_file_is_never_overwritten_and_makes_the_gate_deny(gated: Gated) -> None:
    gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ZERO)
    good = gated.machine.layout.grants.read_bytes()
    damaged = good[: len(good) // 2]
    gated.machine.layout.grants.write_bytes(damaged)
    try:
        grant = gated.machine.renet("gpu", "grant", REPOSITORY, "--device", ONE, check=False)
        assert grant.returncode == 12
        assert gated.machine.layout.grants.read_bytes() == damaged
        run = gated.daemon.docker("run", "--rm", "--device", ZERO, "busybox", "true", check=False)
        assert run.returncode == 125
        assert "the grants of this machine cannot be read" in run.stderr
    finally:
        gated.machine.layout.grants.write_bytes(good)
    gated.daemon.docker("run", "--rm", "--device", ZERO, "busybox", "open-device", "/dev/nvidia0")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_without_the_gate_dockerd_refuses_everything(engine: Engine, how: signal.Signals) -> None:
    with Machine(engine) as machine:
        daemon = machine.add_repository("gpu-b")
        machine.start_gate()
        daemon.start()
        daemon.load_image()
        machine.stop_gate(how)
        refused = daemon.docker("ps", check=False, timeout=90)
        assert refused.returncode != 0
        assert "plugin rediacc-gpu-b" in refused.stderr
        machine.start_gate()
        machine.renet("gpu", "grant", "gpu-b", "--device", ZERO)
        daemon.docker("run", "--rm", "--device", ZERO, "busybox", "open-device", "/dev/nvidia0")


def _service(*lines: str) -> str:
    return "\n".join(
        [
            "services:",
            "  job:",
            "    image: busybox",
            "    network_mode: none",
            *(f"    {line}" for line in lines),
        ]
    )

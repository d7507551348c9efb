"""A repository that renet created: the gate in front, the view of the granted devices behind it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from machine_setup.repository import leftovers
from machine_setup.repository.daemon import cgroup_of
from tests.engine import stand_in
from tests.engine.obtain import Engine
from tests.engine.repositories import Repositories

ZERO, ONE = "nvidia.com/gpu=0", "nvidia.com/gpu=1"


@pytest.fixture
def machine(engine: Engine) -> Iterator[Repositories]:
    with Repositories(engine) as machine:
        yield machine


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def without_gate(machine: Repositories, name: str) -> None:
    """Take the gate away from the repository's daemon, as somebody might by mistake."""
    path = machine.repository(name).daemon_json
    configuration = json.loads(path.read_text())
    configuration["authorization-plugins"] = []
    path.write_text(json.dumps(configuration))
    machine.reload(name)


def test_grant_and_revoke_without_restarting_anything(machine: Repositories) -> None:
    machine.create("gpu-a")
    pid = machine.daemon_pid("gpu-a")
    assert "has no grant for nvidia.com/gpu=0" in machine.opens("gpu-a")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    assert machine.opens("gpu-a") == ""
    assert "has no grant for nvidia.com/gpu=1" in machine.opens("gpu-a", ONE, "/dev/nvidia1")
    machine.command("gpu", "revoke", "gpu-a", "--device", ZERO)
    assert "has no grant for nvidia.com/gpu=0" in machine.opens("gpu-a")
    assert machine.daemon_pid("gpu-a") == pid


def test_without_its_gate_a_daemon_knows_the_granted_devices_only(machine: Repositories) -> None:
    machine.create("gpu-a")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    without_gate(machine, "gpu-a")
    assert machine.opens("gpu-a") == ""
    assert "unresolvable CDI devices nvidia.com/gpu=1" in machine.opens("gpu-a", ONE, "/dev/nvidia1")
    # The daemon's own watch on its directory: each answer is right at once, not after a while.
    for _ in range(5):
        machine.command("gpu", "revoke", "gpu-a", "--device", ZERO)
        assert "unresolvable CDI devices nvidia.com/gpu=0" in machine.opens("gpu-a")
        machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
        assert machine.opens("gpu-a") == ""


def test_the_view_follows_the_machines_specs_and_the_expiry_of_grants(machine: Repositories) -> None:
    machine.create("gpu-a")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO, "--expires", soon)
    machine.command("gpu", "grant", "gpu-a", "--device", ONE)
    without_gate(machine, "gpu-a")
    first, _ = stand_in.gpu_nodes()
    stand_in.write_spec(machine.layout.cdi_dir / "nvidia.yaml", stand_in.KIND, {"0": [first]})
    machine.command("repo", "views")
    assert "unresolvable CDI devices nvidia.com/gpu=1" in machine.opens("gpu-a", ONE, "/dev/nvidia1")
    time.sleep(3)
    machine.command("repo", "views")
    assert "unresolvable CDI devices nvidia.com/gpu=0" in machine.opens("gpu-a")


def test_no_restart_policy_brings_a_revoked_device_back(machine: Repositories) -> None:
    machine.create("gpu-a")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    for name, device in (("held", ["--device", ZERO]), ("plain", [])):
        machine.docker("gpu-a", "run", "-d", "--network=none", "--restart=always", "--stop-timeout=1",
                       f"--name={name}", *device, "busybox", "sleep", "600")  # fmt: skip
    machine.end("gpu-a")
    machine.command("gpu", "revoke", "gpu-a", "--device", ZERO)
    machine.run("gpu-a")

    def state(name: str) -> str:
        return machine.docker("gpu-a", "inspect", "--format={{.State.Status}}", name).stdout.strip()

    assert eventually(lambda: state("plain") == "running")
    assert state("held") != "running"
    error = machine.docker("gpu-a", "inspect", "--format={{.State.Error}}", "held").stdout
    # 26.1 starts containers before it knows of CDI at all: "could not select device driver cdi".
    assert "cdi" in error.lower()


@pytest.mark.parametrize("granted", [False, True])
def test_no_build_gets_a_device(machine: Repositories, tmp_path: Path, granted: bool) -> None:
    spec = machine.layout.cdi_dir / "nvidia.yaml"
    offered = {**json.loads(spec.read_text()), "cdiVersion": "0.6.0"}
    offered["annotations"] = {"org.mobyproject.buildkit.device.autoallow": "true"}
    spec.write_text(json.dumps(offered))
    machine.create("gpu-a")
    if granted:
        machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    # The gate refuses every build while such a spec is there; what stands behind it is tested here.
    without_gate(machine, "gpu-a")
    (tmp_path / "Dockerfile").write_text(
        f"FROM busybox\nRUN --device={ZERO} --network=none open-device /dev/nvidia0\n"
    )
    built = machine.docker("gpu-a", "buildx", "build", "--allow=device", str(tmp_path), check=False)
    assert built.returncode != 0
    assert "device" in built.stderr
    assert "opened" not in built.stderr + built.stdout


def test_two_repositories_do_not_reach_each_other(machine: Repositories) -> None:
    one = machine.create("gpu-a")
    two = machine.create("gpu-b")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    machine.docker("gpu-a", "run", "-d", "--network=none", "--name=mine", "busybox", "sleep", "600")
    assert "has no grant" in machine.opens("gpu-b")
    assert machine.docker("gpu-b", "ps", "-aq").stdout == ""
    without_gate(machine, "gpu-b")
    # What the daemon of the other repository sees of the machine, by way of a container that binds all of it.
    seen = machine.docker(
        "gpu-b", "run", "--rm", "--network=none", "-v", f"{machine.directory}:/m", "-v", "/run:/r", "busybox",
        "sh", "-c",
        "ls /m/var/lib/rediacc/repos; ls -A /m/run/rediacc /m/etc/rediacc /r/containerd/s; find /m -name '*.s*'",  # noqa: E501
    ).stdout  # fmt: skip
    assert two.guid in seen
    assert one.guid not in seen
    for hidden in ("docker-gpu-a.sock", "docker-gpu-b.sock", "grants.json", "repositories.json"):
        assert hidden not in seen


def traces(machine: Repositories, guid: str) -> dict[str, object]:
    """All that a repository may leave on the machine, beside its own files."""
    repository = [r for r in machine.answer_list() if r["guid"] == guid]
    short = guid.replace("-", "")[:12]
    return {
        "registered": repository,
        "processes": leftovers.belonging(machine.layout.exec_root(guid), cgroup_of(guid).path),
        "cgroups": list(Path("/sys/fs/cgroup").glob(f"*/rediacc/{short}")),
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if short in line],
        "files": [str(path) for path in machine.directory.rglob(f"*{guid}*")],
        "state": [str(path) for path in machine.directory.rglob(f"*{short}*")],
    }


@pytest.mark.parametrize("running", [False, True])
def test_delete_leaves_nothing_behind(machine: Repositories, running: bool) -> None:
    repository = machine.create("gpu-a")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    machine.docker("gpu-a", "run", "-d", "--network=none", "--device", ZERO, "--restart=always",
                   "--stop-timeout=1", "busybox", "sleep", "600")  # fmt: skip
    if not running:
        machine.end("gpu-a")
    machine.command("repo", "delete", "gpu-a")
    if running:
        assert machine.wait("gpu-a") == 0
    left = traces(machine, repository.guid)
    assert not any(left.values()), left
    names = [path.name for path in machine.directory.rglob("*gpu-a*") if path.name != "gpu-a.out"]
    assert names == []
    again = machine.create("gpu-a", image=False)
    assert again.guid != repository.guid
    assert "has no grant" in machine.opens("gpu-a")


def test_a_daemon_that_was_killed_leaves_nothing_running_and_starts_again(machine: Repositories) -> None:
    repository = machine.create("gpu-a")
    machine.docker("gpu-a", "run", "-d", "--network=none", "busybox", "sleep", "600")
    os.kill(machine.daemon_pid("gpu-a"), 9)
    assert machine.wait("gpu-a") != 0
    assert not leftovers.belonging(machine.layout.exec_root(repository.guid), cgroup_of(repository.guid).path)
    machine.run("gpu-a")
    assert machine.docker("gpu-a", "ps", "-aq").stdout != ""


def test_keep_data_keeps_the_data(machine: Repositories) -> None:
    machine.create("gpu-a")
    machine.docker("gpu-a", "run", "--rm", "--network=none", "-v", "data:/d", "busybox", "touch", "/d/kept")
    done = machine.answer("repo", "delete", "gpu-a", "--keep-data")
    kept = machine.layout.data_root(str(done["guid"]))
    assert done["keptData"] == str(kept.parent)
    assert (kept / "volumes/data/_data/kept").exists()
    assert machine.answer_list() == []


def test_a_fork_starts_its_containers_after_a_grant_of_its_own(machine: Repositories) -> None:
    machine.create("gpu-a")
    machine.command("gpu", "grant", "gpu-a", "--device", ZERO)
    machine.docker("gpu-a", "volume", "create", "data")
    machine.docker(
        "gpu-a", "run", "-d", "--network=none", "--device", ZERO, "--restart=always", "--name=trainer",
        "-v", "data:/data", "busybox", "sh", "-c", "open-device /dev/nvidia0 >/data/seen; exec sleep 600",
    )  # fmt: skip
    assert eventually(
        lambda: "opened" in machine.docker("gpu-a", "exec", "trainer", "cat", "/data/seen").stdout
    )
    pid = machine.daemon_pid("gpu-a")

    forked = machine.answer("repo", "fork", "gpu-a", "gpu-a:copy", "--network", "host")
    assert machine.daemon_pid("gpu-a") == pid
    assert "Up" in machine.docker("gpu-a", "ps").stdout

    machine.restart_gate()
    machine.run("gpu-a:copy")
    assert machine.docker("gpu-a:copy", "ps", "-q").stdout == ""
    refused = machine.docker("gpu-a:copy", "start", "trainer", check=False)
    assert "repository gpu-a:copy has no grant for nvidia.com/gpu=0" in refused.stderr
    machine.command("gpu", "grant", "gpu-a:copy", "--device", ZERO)
    machine.docker("gpu-a:copy", "start", "trainer")
    assert "opened" in machine.docker("gpu-a:copy", "exec", "trainer", "cat", "/data/seen").stdout
    # Its volume is a copy, and its daemon somebody else.
    machine.docker("gpu-a:copy", "exec", "trainer", "rm", "/data/seen")
    assert "opened" in machine.docker("gpu-a", "exec", "trainer", "cat", "/data/seen").stdout
    identities = {machine.docker(name, "info", "--format={{.ID}}").stdout for name in ("gpu-a", "gpu-a:copy")}
    assert len(identities) == 2
    assert str(forked["guid"]) in machine.docker("gpu-a:copy", "inspect", "trainer").stdout
    assert machine.repository("gpu-a").guid not in machine.docker("gpu-a:copy", "inspect", "trainer").stdout

"""Set-up on a whole machine: its real systemd, udev and render nodes, its reboots and its power."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.image import Image
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

SPEC = "/etc/cdi/rediacc.io-dri.yaml"
INVENTORY = "/etc/rediacc/gpu/inventory.json"
SERVICE = "rediacc-cdi-refresh.service"
WRITTEN = f"{SPEC} {INVENTORY} /etc/udev/rules.d/70-rediacc-cdi.rules /etc/systemd/system/{SERVICE}"


@pytest.fixture(scope="module")
def machine(lab_image: Image) -> Iterator[Machine]:
    """The lab machine with this project on it, and nothing set up."""
    with Machine(lab_image) as machine:
        machine.install_project()
        yield machine


def setup(machine: Machine, *words: str) -> dict[str, Any]:
    """The data of ``renet setup`` over SSH."""
    answer = json.loads(machine.run(" ".join(("renet setup -o json", *words)), timeout=300).stdout)
    assert answer["ok"] is True
    data: dict[str, Any] = answer["data"]
    return data


def published(machine: Machine) -> set[str]:
    """The names that the specs define now."""
    listed = json.loads(machine.run("renet cdi list -o json").stdout)["data"]
    return {device["name"] for device in listed["devices"]}


def state(machine: Machine) -> str:
    """Everything that set-up may touch, with its times."""
    return machine.run(
        "find /etc/cdi /etc/rediacc /etc/udev /etc/systemd/system /usr/share/keyrings /etc/apt"
        " ! -path /etc/rediacc/gpu -printf '%p %s %T@ %l\\n' | sort"
    ).stdout


def wait_for(machine: Machine, names: set[str]) -> None:
    """Return as soon as the specs define exactly `names`; they follow the nodes without us."""
    deadline = (
        time.monotonic() + 300
    )  # seconds on an idle machine; an emulated one beside other tests takes longer
    while published(machine) != names:
        assert time.monotonic() < deadline, machine.run(
            f"systemctl status {SERVICE}; journalctl -b -u {SERVICE} | tail -n 20",
            check=False,
        ).stdout
        time.sleep(1)


def virtio_and_vgem(machine: Machine) -> tuple[str, str]:
    """The render nodes of the virtio GPU and of vgem: the kernel numbers them anew at each boot."""
    found = machine.run(
        "for node in /sys/class/drm/renderD*; do "
        "echo $(basename $(readlink -f $node/device)) $(basename $node); done"
    ).stdout
    nodes = dict(line.split() for line in found.splitlines())
    vgem = nodes.pop("vgem")
    (virtio,) = nodes.values()  # its device is the PCI device or virtio's, as the kernel's version has it
    return virtio, vgem


BOTH = {"rediacc.io/dri=renderD128", "rediacc.io/dri=renderD129"}


def test_a_bare_machine_is_set_up_and_the_second_time_nothing_changes(machine: Machine) -> None:
    before = state(machine)
    planned = setup(machine, "--dry-run")
    assert planned["changed"] is True
    assert state(machine) == before
    done = setup(machine)
    assert [change["what"] for step in done["steps"] for change in step["changes"]] == [
        change["what"] for step in planned["steps"] for change in step["changes"]
    ]
    assert published(machine) == BOTH
    virtio, _ = virtio_and_vgem(machine)
    (gpu,) = done["inventory"]["gpus"]
    assert (gpu["vendor"], gpu["renderNode"]) == ("virtio", f"/dev/dri/{virtio}")
    assert gpu["devices"] == [f"rediacc.io/dri={virtio}"]
    assert done["inventory"]["warnings"] == []
    after = state(machine)
    again = setup(machine)
    assert again["changed"] is False
    assert state(machine) == after
    assert machine.run(f"systemctl is-enabled {SERVICE}").stdout == "enabled\n"


def test_the_specs_follow_a_driver_that_goes_and_comes_back(machine: Machine) -> None:
    virtio, vgem = virtio_and_vgem(machine)
    machine.run("renet repo adopt gone --socket /run/gone.sock")
    machine.run(f"renet gpu grant gone --device rediacc.io/dri={vgem}")
    machine.run("modprobe -r vgem")
    wait_for(machine, {f"rediacc.io/dri={virtio}"})
    after = setup(machine)
    assert [device["name"] for device in after["inventory"]["devices"]] == [f"rediacc.io/dri={virtio}"]
    (warning,) = [step for step in after["next"] if "no longer has" in step]
    assert f"gone holds a grant for rediacc.io/dri={vgem}" in warning
    machine.run("modprobe vgem")
    wait_for(machine, BOTH)
    back = setup(machine)
    assert not [step for step in back["next"] if "no longer has" in step]
    machine.run("renet gpu revoke gone --all && renet repo delete gone")


def test_after_a_reboot_the_specs_are_those_of_the_machine(machine: Machine) -> None:
    setup(machine)
    machine.run(f"rm {SPEC}; sync")
    machine.reboot()
    # Nobody has run set-up: the service did it at boot.
    wait_for(machine, BOTH)
    first, second = setup(machine), setup(machine)
    specs = next(step for step in first["steps"] if step["name"] == "rediacc.io specs")
    assert specs["changes"] == []
    assert second["changed"] is False


def test_a_set_up_that_loses_power_is_finished_by_the_next(machine: Machine) -> None:
    setup(machine)
    contents = machine.run(f"cat {WRITTEN}").stdout
    unset = f"systemctl disable --quiet {SERVICE}"
    machine.run(f"{unset}; rm -f {WRITTEN}; systemctl daemon-reload; sync", timeout=300)
    running = subprocess.Popen(
        ["ssh", "-F", str(machine.ssh_config), "lab", "renet setup"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stderr is not None
        middle = "] keeping specs current …"  # the specs are written, the inventory is not
        assert any(middle in line for line in running.stderr), "it ended before that step"
        machine.power_cut()
        running.kill()
    machine.start()
    # What is there is whole: an interrupted write leaves the old file, the new one or none.
    machine.run(f"test ! -e {SPEC} || renet cdi validate {SPEC}")
    machine.run(f"test ! -e {INVENTORY} || python3 -m json.tool {INVENTORY}")
    setup(machine)
    assert setup(machine)["changed"] is False
    assert without_time(machine.run(f"cat {WRITTEN}").stdout) == without_time(contents)
    assert machine.run("find /etc -name '.*.tmp'").stdout == ""
    assert machine.run(f"systemctl is-enabled {SERVICE}").stdout == "enabled\n"


def test_a_container_of_a_repository_opens_the_granted_node_and_no_other(machine: Machine) -> None:
    setup(machine)
    virtio, vgem = virtio_and_vgem(machine)
    machine.run("test -e /sys/fs/cgroup/cgroup.controllers")
    machine.run("renet repo create gpu-a", timeout=300)
    docker = "docker -H unix:///run/rediacc/docker-gpu-a.sock"
    machine.run(
        "mkdir -p /tmp/image/bin && cp /bin/busybox /tmp/image/bin/ && ln -sf busybox /tmp/image/bin/sh && "
        f"tar -C /tmp/image -c . | {docker} import - tools",
        timeout=300,
    )
    run = f"{docker} run --rm --network none --device rediacc.io/dri={virtio} tools /bin/busybox sh -c"
    refused = machine.run(f"{run} true", check=False, timeout=300)
    assert f"has no grant for rediacc.io/dri={virtio}" in refused.stderr
    machine.run(f"renet gpu grant gpu-a --device rediacc.io/dri={virtio}", timeout=300)
    opened = machine.run(f"{run} 'exec 3<>/dev/dri/{virtio} && echo opened'", timeout=300)
    assert opened.stdout == "opened\n"
    minor = vgem.removeprefix("renderD")
    other = f"busybox mknod /tmp/node c 226 {minor} && exec 3<>/tmp/node"
    denied = machine.run(f"{run} 'busybox mkdir /tmp; {other}'", check=False, timeout=300)
    assert "Operation not permitted" in denied.stderr
    machine.run("renet repo delete gpu-a", timeout=300)


def without_time(text: str) -> list[str]:
    """All lines but the one that says when."""
    return [line for line in text.splitlines() if "generatedAt" not in line]

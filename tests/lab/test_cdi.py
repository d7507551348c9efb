"""Our specs on a whole machine: its own sysfs tree, its own render nodes, its own engine."""

import json
import shlex
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.image import Image
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

SPEC = "/etc/cdi/rediacc.io-dri.yaml"
# Debian's Docker 26.1 has CDI off by default.
DAEMON_JSON = {"features": {"cdi": True}, "cdi-spec-dirs": ["/etc/cdi"]}
IMAGE = (
    "mkdir -p /tmp/root/bin && cp /bin/busybox /tmp/root/bin/ && ln -sf busybox /tmp/root/bin/sh && "
    "tar -C /tmp/root -c . | docker import - busybox"
)


@pytest.fixture(scope="module")
def machine(lab_image: Image) -> Iterator[Machine]:
    """The lab machine with this project on it, and an engine that reads /etc/cdi."""
    with Machine(lab_image) as machine:
        machine.install_project()
        machine.run(f"echo {shlex.quote(json.dumps(DAEMON_JSON))} >/etc/docker/daemon.json")
        machine.run("systemctl restart docker", timeout=300)
        machine.run(IMAGE, timeout=300)
        yield machine


def data(machine: Machine, command: str) -> Any:
    return json.loads(machine.run(f"{command} -o json").stdout)["data"]


def nodes_of(machine: Machine) -> dict[str, str]:
    """The render nodes of ``virtio`` and ``vgem``: the kernel numbers them anew at each boot."""
    found = machine.run(
        "for node in /sys/class/drm/renderD*; do "
        "echo $(basename $(readlink -f $node/device)) $(basename $node); done"
    ).stdout
    nodes = dict(line.split() for line in found.splitlines())
    return {"vgem" if parent.startswith("vgem") else "virtio": node for parent, node in nodes.items()}


def opens(machine: Machine, node: str, name: str) -> bool:
    """Whether a container that names the device opens the node for reading and writing."""
    # Opening for reading and writing would make a file where no node is.
    script = f"test -c /dev/dri/{node} && exec 3<>/dev/dri/{node} && echo opened"
    command = f"docker run --rm --network=none --device {name} busybox sh -c {shlex.quote(script)}"
    return machine.run(command, check=False, timeout=300).stdout == "opened\n"


def test_the_real_tree_becomes_a_spec_once(machine: Machine) -> None:
    first = data(machine, "renet cdi generate")
    assert [(spec["kind"], spec["action"]) for spec in first["specs"]] == [
        ("rediacc.io/dri", "written"),
        ("rediacc.io/amd", "absent"),
    ]
    assert first["warnings"] == []
    content = machine.run(f"stat -c '%i %Y %a' {SPEC}; cat {SPEC}").stdout
    second = data(machine, "renet cdi generate")
    assert [spec["action"] for spec in second["specs"]] == ["unchanged", "absent"]
    assert machine.run(f"stat -c '%i %Y %a' {SPEC}; cat {SPEC}").stdout == content
    assert json.loads(machine.run("renet cdi schema").stdout)["$id"] in content
    assert machine.run(f"renet cdi validate {SPEC}").stdout.startswith(f"{SPEC}: valid, rediacc.io/dri")


def test_each_node_has_the_identity_that_the_machine_says(machine: Machine) -> None:
    machine.run("renet cdi generate")
    nodes = nodes_of(machine)
    devices = {device["name"]: device for device in data(machine, "renet cdi list")["devices"]}
    assert set(devices) == {f"rediacc.io/dri={node}" for node in nodes.values()}
    # lspci knows the card by its own way: "0000:00:04.0 Display controller [0380]: … [1af4:1050] …".
    card = machine.run("lspci -Dnn | grep 1af4:1050").stdout.split()[0]
    assert devices[f"rediacc.io/dri={nodes['virtio']}"]["annotations"] == {
        "rediacc.io/pci-address": card,
        "rediacc.io/vendor": "0x1af4",
        "rediacc.io/product": "0x1050",
    }
    assert devices[f"rediacc.io/dri={nodes['vgem']}"]["annotations"] == {"rediacc.io/parent": "vgem"}


def test_a_container_opens_the_node_that_it_names(machine: Machine) -> None:
    machine.run("renet cdi generate")
    nodes = nodes_of(machine)
    for node in nodes.values():
        assert opens(machine, node, f"rediacc.io/dri={node}")
    assert not opens(machine, nodes["vgem"], f"rediacc.io/dri={nodes['virtio']}")


def test_a_driver_that_goes_takes_its_device_along_without_a_restart(machine: Machine) -> None:
    machine.run("renet cdi generate")
    nodes = nodes_of(machine)
    engine = machine.run("systemctl show -P MainPID docker").stdout
    gone = f"rediacc.io/dri={nodes['vgem']}"
    machine.run("modprobe -r vgem")
    (spec, _) = data(machine, "renet cdi generate")["specs"]
    assert (spec["action"], gone in spec["devices"]) == ("written", False)
    refused = machine.run(f"docker run --rm --network=none --device {gone} busybox true", check=False)
    assert "unresolvable CDI devices" in refused.stderr
    machine.run("modprobe vgem")
    deadline = time.monotonic() + 60
    while "vgem" not in nodes_of(machine):
        assert time.monotonic() < deadline
    machine.run("renet cdi generate")
    back = nodes_of(machine)["vgem"]
    assert opens(machine, back, f"rediacc.io/dri={back}")
    assert machine.run("systemctl show -P MainPID docker").stdout == engine

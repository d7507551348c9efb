"""Which names are the same GPU: by the nodes that their specs inject, as the kernel knows them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from grants_cli.devices import Devices
from grants_cli.exclusive import same_hardware
from grants_cli.grants import Grant
from spec.layout import Layout
from tests import trees
from tests.trees import Machine
from tests.unit.grants_cli.conftest import NOW
from tests.unit.grants_cli.specs import CONTROL, NVIDIA, write_spec

Nodes = Mapping[str, Sequence[str | Mapping[str, object]]]

CAPS = "/dev/nvidia-caps/nvidia-cap"
MIG: Nodes = {
    "0:0": ["/dev/nvidia0", f"{CAPS}66", f"{CAPS}67"],
    "0:1": ["/dev/nvidia0", f"{CAPS}75", f"{CAPS}76"],
    "MIG-cccccccc": ["/dev/nvidia0", f"{CAPS}66", f"{CAPS}67"],
    "1": ["/dev/nvidia1"],
    "whole": ["/dev/nvidia0"],
    "all": ["/dev/nvidia0", "/dev/nvidia1", f"{CAPS}66", f"{CAPS}67", f"{CAPS}75", f"{CAPS}76"],
}
DRI: Nodes = {f"renderD{128 + n}": [f"/dev/dri/renderD{128 + n}"] for n in range(3)}
CARDS: Nodes = {f"card{n}": [f"/dev/dri/card{n}"] for n in range(2)}
AMD: Nodes = {
    "gpu0": ["/dev/kfd", "/dev/dri/renderD128"],
    "gpu1": ["/dev/kfd", "/dev/dri/renderD129"],
    "all": ["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"],
    "compute-only": ["/dev/kfd"],
}
NVIDIA_WITH_DRI: Nodes = {
    "0": ["/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"],
    "1": ["/dev/nvidia1", "/dev/dri/card2", "/dev/dri/renderD129"],
}


def nvidia_card(root: Path, address: str, minor: int) -> None:
    """The NVIDIA driver's procfs of a card."""
    directory = root / "proc/driver/nvidia/gpus" / address
    directory.mkdir(parents=True)
    text = (
        f"Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-0\nBus Location: \t {address}\nDevice Minor: \t {minor}\n"
    )
    (directory / "information").write_text(text)


def two_cards(root: Path) -> None:
    """Two NVIDIA cards that the kernel numbers the other way round than their render nodes."""
    kernel = Machine(root, dev=False)
    kernel.pci_card("0000:01:00.0", trees.NVIDIA, 0x27B8, 128)
    kernel.pci_card("0000:02:00.0", trees.NVIDIA, 0x27B8, 129)
    nvidia_card(root, "0000:01:00.0", 1)
    nvidia_card(root, "0000:02:00.0", 0)


def same(layout: Layout, one: str, other: str) -> bool:
    machine = Devices(layout)
    forwards, backwards = machine.shared_node(one, other), machine.shared_node(other, one)
    assert bool(forwards) == bool(backwards)
    return bool(forwards)


@pytest.mark.parametrize(
    ("kind", "devices", "one", "other", "expected"),
    [
        ("nvidia.com/gpu", NVIDIA, "0", "GPU-aaaaaaaa-0000", True),
        ("nvidia.com/gpu", NVIDIA, "0", "all", True),
        ("nvidia.com/gpu", NVIDIA, "all", "GPU-bbbbbbbb-1111", True),
        ("nvidia.com/gpu", NVIDIA, "0", "1", False),
        ("nvidia.com/gpu", NVIDIA, "1", "GPU-aaaaaaaa-0000", False),
        ("nvidia.com/gpu", MIG, "0:0", "0:1", False),
        ("nvidia.com/gpu", MIG, "0:0", "MIG-cccccccc", True),
        ("nvidia.com/gpu", MIG, "0:1", "MIG-cccccccc", False),
        ("nvidia.com/gpu", MIG, "0:0", "whole", True),
        ("nvidia.com/gpu", MIG, "0:0", "all", True),
        ("nvidia.com/gpu", MIG, "0:0", "1", False),
        ("nvidia.com/gpu", MIG, "1", "all", True),
        ("rediacc.io/amd", AMD, "gpu0", "gpu1", False),
        ("rediacc.io/amd", AMD, "gpu0", "all", True),
        ("rediacc.io/amd", AMD, "compute-only", "gpu0", True),
        ("rediacc.io/amd", AMD, "compute-only", "all", True),
        ("rediacc.io/dri", DRI, "renderD128", "renderD129", False),
        ("microsoft.com/gpu", {"all": ["/dev/dxg"], "first": ["/dev/dxg"]}, "all", "first", True),
    ],
)
def test_names_of_one_spec(
    layout: Layout, *, kind: str, devices: Nodes, one: str, other: str, expected: bool
) -> None:
    write_spec(layout, kind, devices, CONTROL)
    assert same(layout, f"{kind}={one}", f"{kind}={other}") == expected


@pytest.mark.parametrize("control", [CONTROL, []])
def test_control_nodes_of_each_device_are_no_overlap_either(layout: Layout, control: list[str]) -> None:
    write_spec(
        layout, "nvidia.com/gpu", {name: [*nodes, *CONTROL] for name, nodes in NVIDIA.items()}, control
    )
    assert not same(layout, "nvidia.com/gpu=0", "nvidia.com/gpu=1")
    assert same(layout, "nvidia.com/gpu=0", "nvidia.com/gpu=all")


@pytest.mark.parametrize(
    ("kind", "devices", "name", "node", "expected"),
    [
        ("nvidia.com/gpu", NVIDIA_WITH_DRI, "0", "renderD128", True),
        ("nvidia.com/gpu", NVIDIA_WITH_DRI, "1", "renderD128", False),
        ("rediacc.io/amd", AMD, "gpu0", "renderD128", True),
        ("rediacc.io/amd", AMD, "gpu1", "renderD128", False),
        ("rediacc.io/amd", AMD, "all", "renderD129", True),
        ("rediacc.io/amd", AMD, "all", "renderD130", False),
    ],
)
def test_a_card_and_its_render_node(
    layout: Layout, *, kind: str, devices: Nodes, name: str, node: str, expected: bool
) -> None:
    write_spec(layout, kind, devices, CONTROL)
    write_spec(layout, "rediacc.io/dri", DRI)
    assert same(layout, f"{kind}={name}", f"rediacc.io/dri={node}") == expected


@pytest.mark.parametrize(
    ("name", "node", "expected"),
    [
        # Card 0 of the driver is the one with renderD129: only the PCI address tells.
        ("0:0", "renderD129", True),
        ("0:1", "renderD128", False),
        ("whole", "renderD129", True),
        ("whole", "renderD128", False),
        ("all", "renderD128", True),
    ],
)
def test_a_card_whose_spec_names_no_render_node(layout: Layout, name: str, node: str, expected: bool) -> None:
    two_cards(layout.root)
    write_spec(layout, "nvidia.com/gpu", MIG, CONTROL)
    write_spec(layout, "rediacc.io/dri", DRI)
    assert same(layout, f"nvidia.com/gpu={name}", f"rediacc.io/dri={node}") == expected


def test_the_card_node_and_the_render_node_of_one_card(layout: Layout) -> None:
    two_cards(layout.root)
    write_spec(layout, "rediacc.io/dri", {**DRI, **CARDS})
    assert same(layout, "rediacc.io/dri=card1", "rediacc.io/dri=renderD129")
    assert not same(layout, "rediacc.io/dri=card1", "rediacc.io/dri=renderD128")


def test_devices_that_have_control_nodes_alone_share_them(layout: Layout) -> None:
    write_spec(layout, "acme.com/gpu", {"a": [], "b": []}, CONTROL)
    write_spec(layout, "acme.com/other", {"a": [], "b": []})
    assert same(layout, "acme.com/gpu=a", "acme.com/gpu=b")
    assert not same(layout, "acme.com/other=a", "acme.com/other=b")


def test_a_symlink_to_a_node_is_the_node(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "node").touch()
    (tmp_path / "by-path").symlink_to(tmp_path / "node")
    devices: Nodes = {
        "node": [{"path": "/dev/x", "hostPath": str(tmp_path / "node")}],
        "link": [{"path": "/dev/y", "hostPath": str(tmp_path / "by-path")}],
        "other": [{"path": "/dev/x", "hostPath": str(tmp_path / "other")}],
    }
    write_spec(layout, "acme.com/gpu", devices)
    assert same(layout, "acme.com/gpu=node", "acme.com/gpu=link")
    assert not same(layout, "acme.com/gpu=node", "acme.com/gpu=other")


def test_two_nodes_of_one_number_are_one(layout: Layout, tmp_path: Path) -> None:
    zero = Path("/dev/zero").stat().st_rdev
    numbers = {"type": "c", "major": os.major(zero), "minor": os.minor(zero)}
    devices: Nodes = {
        "stated": [{"path": "/dev/gpu7", **numbers}],
        "real": ["/dev/zero"],
        "block": [{"path": "/dev/gpu8", **numbers, "type": "b"}],
    }
    write_spec(layout, "acme.com/gpu", devices)
    assert same(layout, "acme.com/gpu=stated", "acme.com/gpu=real")
    assert not same(layout, "acme.com/gpu=block", "acme.com/gpu=real")


def test_what_a_whole_spec_brings_counts_against_other_specs_alone(layout: Layout) -> None:
    write_spec(
        layout, "acme.com/gpu", {"a": ["/dev/acme0"], "b": ["/dev/acme1"], "c": []}, ["/dev/dri/renderD128"]
    )
    write_spec(layout, "rediacc.io/dri", DRI)
    assert not same(layout, "acme.com/gpu=a", "acme.com/gpu=b")
    assert same(layout, "acme.com/gpu=a", "acme.com/gpu=c")
    assert same(layout, "acme.com/gpu=a", "rediacc.io/dri=renderD128")


def test_cards_are_known_by_their_pci_addresses(layout: Layout) -> None:
    two_cards(layout.root)
    write_spec(layout, "nvidia.com/gpu", NVIDIA, CONTROL)
    write_spec(layout, "rediacc.io/dri", DRI)
    machine = Devices(layout)
    assert machine.cards("nvidia.com/gpu=0") == machine.cards("rediacc.io/dri=renderD129") == {"0000:02:00.0"}
    assert machine.cards("nvidia.com/gpu=all") == {"0000:01:00.0", "0000:02:00.0"}
    assert machine.cards("rediacc.io/dri=renderD130") == frozenset()


def test_a_name_that_is_gone_is_what_it_was(layout: Layout) -> None:
    two_cards(layout.root)
    write_spec(layout, "rediacc.io/dri", DRI)
    machine = Devices(layout)
    gone = Grant("nvidia.com/gpu=0", True, NOW, "root", cards=("0000:02:00.0",))
    unknown = Grant("nvidia.com/gpu=0", True, NOW, "root")
    wanted = Grant("rediacc.io/dri=renderD129", False, NOW, "root")
    assert same_hardware(wanted, gone, machine) == (True, "0000:02:00.0")
    assert same_hardware(gone, unknown, machine) == (True, "")
    assert same_hardware(wanted, unknown, machine) == (False, "")
    assert same_hardware(Grant("rediacc.io/dri=renderD128", False, NOW, "root"), gone, machine) == (False, "")

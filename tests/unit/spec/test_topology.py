"""The machine's GPUs are seen in sysfs trees of many machines, whole and broken."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spec.sysfs import PciIdentity
from spec.topology import Topology, read_topology
from tests import trees


def summary(topology: Topology) -> list[tuple[str, str | None, str, str | None]]:
    return [
        (node.name, node.identity.address, node.identity.vendor_name, node.driver)
        for node in topology.render_nodes
    ]


@pytest.mark.parametrize(
    ("build", "nodes"),
    [
        (trees.intel_card, [("renderD128", "0000:03:00.0", "intel", "i915")]),
        (trees.amd_card, [("renderD128", "0000:c3:00.0", "amd", "amdgpu")]),
        (
            trees.amd_apu_and_card,
            [
                ("renderD128", "0000:e6:00.0", "amd", "amdgpu"),
                ("renderD129", "0000:03:00.0", "amd", "amdgpu"),
            ],
        ),
        (
            trees.nvidia_and_intel,
            [
                ("renderD128", "0000:00:02.0", "intel", "i915"),
                ("renderD129", "0000:01:00.0", "nvidia", "nvidia"),
            ],
        ),
        (
            trees.vgem_and_virtio,
            [
                ("renderD128", "0000:00:02.0", "virtio", "virtio_gpu"),
                ("renderD129", None, "other", "vgem"),
            ],
        ),
        (trees.no_gpu, []),
    ],
)
def test_render_nodes(
    build: Callable[[Path], trees.Machine],
    nodes: list[tuple[str, str | None, str, str | None]],
    tmp_path: Path,
) -> None:
    build(tmp_path)
    topology = read_topology(tmp_path)
    assert summary(topology) == nodes
    assert topology.warnings == ()


def test_a_virtio_card_is_known_by_its_pci_device(tmp_path: Path) -> None:
    trees.vgem_and_virtio(tmp_path)
    virtio, vgem = read_topology(tmp_path).render_nodes
    assert virtio.identity == PciIdentity("0000:00:02.0", 0x1AF4, 0x1050)
    assert (virtio.parent, virtio.card) == ("virtio0", "card0")
    assert vgem.identity == PciIdentity()
    assert (vgem.parent, vgem.card) == ("vgem", "card1")


def test_a_card_that_no_driver_has_is_seen_on_the_bus(tmp_path: Path) -> None:
    trees.nvidia_and_intel(tmp_path)
    assert [(gpu.identity.address, gpu.driver) for gpu in read_topology(tmp_path).pci_gpus] == [
        ("0000:00:02.0", "i915"),
        ("0000:01:00.0", "nvidia"),
        ("0000:02:00.0", None),
    ]


def test_a_processing_accelerator_is_seen_on_the_bus_too(tmp_path: Path) -> None:
    machine = trees.mi300_cpx(tmp_path)
    machine.pci_card("0000:0b:00.0", 0x8086, 0x1234, class_code=0x020000)
    assert [gpu.class_code for gpu in read_topology(tmp_path).pci_gpus] == [0x120000]


def test_the_partitions_of_a_card_are_one_card(tmp_path: Path) -> None:
    trees.mi300_cpx(tmp_path, cards=2)
    topology = read_topology(tmp_path)
    first, second = topology.amd_cards
    assert len(topology.render_nodes) == 16
    assert first.identity == PciIdentity("0000:0a:00.0", 0x1002, 0x74A1)
    assert [node.minor for node in first.nodes] == list(range(128, 136))
    assert (first.partitions, first.memory) == (8, 8 << 34)
    assert second.identity.address == "0000:1a:00.0"
    assert [node.minor for node in second.nodes] == list(range(136, 144))


def test_cards_are_in_the_order_of_the_bus_and_an_apu_is_a_card(tmp_path: Path) -> None:
    trees.amd_apu_and_card(tmp_path)
    cards = read_topology(tmp_path).amd_cards
    assert [(card.identity.address, card.nodes[0].minor) for card in cards] == [
        ("0000:03:00.0", 129),
        ("0000:e6:00.0", 128),
    ]


def test_the_systems_memory_is_not_a_cards(tmp_path: Path) -> None:
    trees.amd_apu_and_card(tmp_path)
    bank = tmp_path / "sys/class/kfd/kfd/topology/nodes/0/mem_banks/1/properties"
    trees.write(bank, "heap_type 0\nsize_in_bytes 66571993088\nflags 0")
    _, apu = read_topology(tmp_path).amd_cards
    assert apu.memory == 536_870_912


def test_a_card_without_a_compute_entry_is_no_compute_card(tmp_path: Path) -> None:
    trees.amd_without_kfd(tmp_path)
    topology = read_topology(tmp_path)
    assert [node.minor for node in topology.render_nodes] == [128, 129]
    assert [card.identity.address for card in topology.amd_cards] == ["0000:c3:00.0"]


@pytest.mark.parametrize("unique_ids", [(0, 0), (7, 8)])
def test_two_functions_that_are_no_partitions_stay_two(unique_ids: tuple[int, int], tmp_path: Path) -> None:
    machine = trees.Machine(tmp_path)
    for function in (0, 1):
        machine.pci_card(f"0000:05:00.{function}", trees.AMD, 0x7310, 128 + function, driver="amdgpu")
        machine.kfd_node(function + 1, 128 + function, trees.location(5, 0, function), unique_ids[function])
    assert len(read_topology(tmp_path).amd_cards) == 2


def test_the_address_of_a_card_in_another_pci_domain(tmp_path: Path) -> None:
    machine = trees.Machine(tmp_path)
    machine.pci_card("10000:01:00.0", trees.AMD, 0x7310, 128, driver="amdgpu")
    node = machine.kfd_node(1, 128, trees.location(1), 7)
    text = (node / "properties").read_text()
    (node / "properties").write_text(text.replace("domain 0\n", ""))
    assert read_topology(tmp_path).amd_cards[0].identity.address == "10000:01:00.0"


def test_an_unplugged_card_is_left_out_with_a_warning(tmp_path: Path) -> None:
    machine = trees.amd_apu_and_card(tmp_path)
    machine.unplug(129)
    topology = read_topology(tmp_path)
    assert [node.minor for node in topology.render_nodes] == [128]
    assert [card.identity.address for card in topology.amd_cards] == ["0000:e6:00.0"]
    assert sum("renderD129" in warning for warning in topology.warnings) == 2


def test_a_node_that_dev_does_not_have_is_left_out_with_a_warning(tmp_path: Path) -> None:
    machine = trees.intel_card(tmp_path)
    (machine.root / "dev/dri/renderD128").unlink()
    topology = read_topology(tmp_path)
    assert topology.render_nodes == ()
    assert "not in /dev/dri" in topology.warnings[0]


def test_a_tree_without_dev_has_all_its_nodes(tmp_path: Path) -> None:
    trees.Machine(tmp_path, dev=False).pci_card("0000:03:00.0", trees.INTEL, 0x56A0, 128, driver="i915")
    assert [node.minor for node in read_topology(tmp_path).render_nodes] == [128]


def test_without_the_compute_device_there_is_no_compute_card(tmp_path: Path) -> None:
    machine = trees.amd_card(tmp_path)
    (machine.root / "dev/kfd").unlink()
    topology = read_topology(tmp_path)
    assert topology.amd_cards == ()
    assert "/dev/kfd" in topology.warnings[0]


def test_broken_attributes_are_as_absent(tmp_path: Path) -> None:
    machine = trees.Machine(tmp_path)
    device = machine.pci_card("0000:03:00.0", trees.INTEL, 0x56A0, 128, driver="i915")
    (device / "vendor").write_bytes(b"\xff\xfe")
    (device / "device").unlink()
    (device / "uevent").unlink()
    (device / "uevent").mkdir()
    (device / "driver").unlink()
    drm = tmp_path / "sys/class/drm"
    for name in ("renderDx", "renderD", "renderD0128", "card0-HDMI-A-1", "version"):
        (drm / name).mkdir()
    (drm / "renderD200").write_text("no directory")
    (drm / "renderD201").mkdir()
    (tmp_path / "dev/dri/renderD201").touch()

    topology = read_topology(tmp_path)

    assert summary(topology) == [
        ("renderD128", "0000:03:00.0", "other", None),
        ("renderD201", None, "other", None),
    ]
    assert [warning.split(" ")[0] for warning in topology.warnings] == ["renderD200"]


def test_a_broken_compute_topology_is_left_out_with_warnings(tmp_path: Path) -> None:
    machine = trees.amd_card(tmp_path)
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    trees.write(nodes / "2/properties", "simd_count many\ndrm_render_minor 129\n\0\0\nlocation_id")
    (nodes / "3").mkdir()
    machine.kfd_node(4, 140, trees.location(9), 1)
    (nodes / "5").symlink_to("nowhere")
    topology = read_topology(tmp_path)
    assert [card.identity.address for card in topology.amd_cards] == ["0000:c3:00.0"]
    assert [warning for warning in topology.warnings if "node 3" in warning]
    assert [warning for warning in topology.warnings if "renderD140" in warning]


def test_a_machine_with_hundreds_of_nodes(tmp_path: Path) -> None:
    machine = trees.Machine(tmp_path)
    for index in reversed(range(300)):
        machine.pci_card(
            f"0000:{index:02x}:00.0" if index < 256 else f"0001:{index - 256:02x}:00.0",
            trees.INTEL,
            0x56A0,
            128 + index,
            driver="xe",
        )
    topology = read_topology(tmp_path)
    assert [node.minor for node in topology.render_nodes] == list(range(128, 428))
    addresses = [gpu.identity.address for gpu in topology.pci_gpus]
    assert len(addresses) == 300
    assert addresses == sorted(addresses, key=str)

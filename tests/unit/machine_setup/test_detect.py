"""Every kind of machine is seen as what it is, with and without the vendors' tools."""

from collections.abc import Callable
from pathlib import Path

import pytest

from machine_setup.detect.machine import Machine, detect
from machine_setup.detect.nvidia import driver_version
from machine_setup.detect.nvidia_smi import parse_line
from machine_setup.detect.pci import normal_address
from machine_setup.detect.platform import Platform
from machine_setup.programs import Programs
from tests.trees import AMD, INTEL, NVIDIA
from tests.unit.machine_setup.stand_ins import SMI_LINES, StandIns
from tests.unit.machine_setup.trees import (
    OPEN,
    PROPRIETARY,
    UUID_0,
    UUID_1,
    MachineTree,
    amd_machine,
    intel_machine,
    nvidia_machine,
    partitioned_machine,
    passthrough_machine,
    wsl_machine,
)

NO_PROGRAMS = Programs(())


def see(tree: MachineTree, *programs: str) -> Machine:
    stand_ins = StandIns.of(tree.root.parent / "programs", tree.root, *programs)
    return detect(tree.root, stand_ins.programs)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "machine"


@pytest.mark.parametrize(
    ("wording", "version"), [(PROPRIETARY, "535.129.03"), (OPEN, "555.42.06")], ids=["proprietary", "open"]
)
def test_nvidia_is_seen_without_its_tools(root: Path, wording: str, version: str) -> None:
    machine = detect(nvidia_machine(root, wording=wording).root, NO_PROGRAMS)
    assert [(gpu.name, gpu.address, gpu.uuid, gpu.memory_mib) for gpu in machine.gpus] == [
        ("NVIDIA GeForce RTX 3090", "0000:01:00.0", UUID_0, None),
        ("NVIDIA A100-SXM4-40GB", "0000:41:00.0", UUID_1, None),
    ]
    assert {gpu.driver_version for gpu in machine.gpus} == {version}
    assert machine.gpus[0].nodes == {"/dev/nvidia0", "/dev/dri/renderD128", "/dev/dri/card0"}
    assert machine.gpus[1].nodes == {"/dev/nvidia1"}
    assert machine.has_nvidia
    assert machine.nvidia_driver_loaded
    assert machine.warnings == ()


def test_nvidia_smi_adds_memory_and_the_uuid_of_a_card_that_nothing_has_opened(root: Path) -> None:
    tree = MachineTree(root).bare()
    tree.nvidia_driver()
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204, driver="nvidia")
    tree.nvidia_gpu("0000:01:00.0", 0, "?")
    (bare,) = detect(root, NO_PROGRAMS).gpus
    assert (bare.uuid, bare.memory_mib) == (None, None)
    gpu = see(tree, "nvidia-smi").gpus[0]
    assert (gpu.uuid, gpu.memory_mib) == (UUID_0, 24576)


def test_the_modules_own_version_file_counts_first(root: Path) -> None:
    tree = nvidia_machine(root)
    tree.write("sys/module/nvidia/version", "560.35.05\n")
    assert driver_version(root) == "560.35.05"


@pytest.mark.parametrize(
    ("failure", "said", "remedy"),
    [
        ("mismatch", "Driver/library version mismatch", "reboot"),
        ("no-driver", "couldn't communicate with the NVIDIA driver", "install the driver"),
        ("no-devices", "No devices were found", "NVRM"),
        ("lost", "Unknown Error", "Xid"),
    ],
)
def test_a_driver_that_is_loaded_but_broken_is_reported_as_that(
    root: Path, failure: str, said: str, remedy: str
) -> None:
    stand_ins = StandIns.of(root.parent / "programs", nvidia_machine(root).root, "nvidia-smi")
    stand_ins.fail("nvidia-smi", failure)
    machine = detect(root, stand_ins.programs)
    (warning,) = machine.warnings
    assert said in warning
    assert remedy in warning.split("Next: ")[1]
    # The cards are still known: from /proc, and from what nvidia-smi said before it failed.
    assert [gpu.uuid for gpu in machine.gpus] == [UUID_0, UUID_1]
    assert machine.gpus[1].memory_mib is None


def test_a_driver_that_hangs_does_not_hang_the_set_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("machine_setup.detect.nvidia_smi._TIMEOUT_SECONDS", 0.5)
    stand_ins = StandIns.of(root.parent / "programs", nvidia_machine(root).root, "nvidia-smi")
    stand_ins.fail("nvidia-smi", "hang")
    machine = detect(root, stand_ins.programs)
    assert "did not end within" in machine.warnings[0]
    assert len(machine.gpus) == 2


def test_a_loaded_driver_without_its_tool_is_reported(root: Path) -> None:
    (warning,) = see(nvidia_machine(root)).warnings
    assert "nvidia-smi is missing" in warning


def _no_driver(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204)


def _nouveau(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204, 128, driver="nouveau")


def _vfio(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204, driver="vfio-pci")


def _unclaimed(tree: MachineTree) -> None:
    tree.nvidia_driver()
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204)


def _not_started(tree: MachineTree) -> None:
    tree.nvidia_driver()
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204, driver="nvidia")


def _no_node(tree: MachineTree) -> None:
    _not_started(tree)
    tree.nvidia_gpu("0000:01:00.0", 0, UUID_0)
    (tree.root / "dev/nvidia0").unlink()


def _amd_no_driver(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", AMD, 0x744C)


def _amd_no_render_node(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", AMD, 0x744C, driver="amdgpu")


def _amd_no_kfd(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", AMD, 0x744C, 128, driver="amdgpu")


def _intel_no_driver(tree: MachineTree) -> None:
    tree.pci_card("0000:01:00.0", INTEL, 0x56A0)


@pytest.mark.parametrize(
    ("build", "said", "next_step"),
    [
        (_no_driver, "has no driver", "install NVIDIA's driver"),
        (_nouveau, "driven by nouveau", "install NVIDIA's driver"),
        (_vfio, "set aside for virtual machines (vfio-pci)", "nothing"),
        (_unclaimed, "left alone by NVIDIA's driver", "dmesg"),
        (_not_started, "loaded but broken", "NVRM"),
        (_no_node, "has no node /dev/nvidia0", "nvidia-modprobe"),
        (_amd_no_driver, "has no driver", "amdgpu"),
        (_amd_no_render_node, "made no render node", "amdgpu"),
        (_amd_no_kfd, "cannot compute", "ROCm"),
        (_intel_no_driver, "has no driver", "i915"),
    ],
)
def test_a_card_that_cannot_be_used_is_listed_with_the_reason_and_the_next_step(
    root: Path, build: Callable[[MachineTree], None], said: str, next_step: str
) -> None:
    tree = MachineTree(root).bare()
    build(tree)
    machine = detect(root, NO_PROGRAMS)
    assert [gpu.address for gpu in machine.gpus] == ["0000:01:00.0"]
    (warning,) = machine.warnings
    assert said in warning
    assert "0000:01:00.0" in warning
    assert next_step in warning.split("Next: ")[1]


def test_a_card_that_is_set_aside_asks_for_no_toolkit(root: Path) -> None:
    _vfio(MachineTree(root).bare())
    assert not detect(root, NO_PROGRAMS).has_nvidia


def test_wsl_asks_nvidia_smi_by_its_full_path(root: Path) -> None:
    tree = wsl_machine(root)
    stand_ins = StandIns.of(root.parent / "programs", root)
    tree.program("usr/lib/wsl/lib/nvidia-smi", (stand_ins.directory / "nvidia-smi").read_text())
    stand_ins.write("smi.csv", f"0, {UUID_0}, NVIDIA GeForce RTX 4090, 24564, 560.94, 00000000:01:00.0\n")
    machine = detect(root, stand_ins.programs)
    assert machine.platform is Platform.WSL
    assert machine.has_nvidia
    (gpu,) = machine.gpus  # vgem's render node is no GPU
    assert (gpu.name, gpu.uuid, gpu.memory_mib) == ("NVIDIA GeForce RTX 4090", UUID_0, 24564)
    assert gpu.nodes == {"/dev/dxg"}


def test_wsl_without_an_answer_still_has_an_nvidia_gpu(root: Path) -> None:
    (gpu,) = detect(wsl_machine(root).root, NO_PROGRAMS).gpus
    assert (gpu.vendor, set(gpu.nodes)) == ("nvidia", {"/dev/dxg"})


def test_wsl_with_another_vendors_card_has_none_and_says_why(root: Path) -> None:
    machine = detect(wsl_machine(root, nvidia=False).root, NO_PROGRAMS)
    assert (machine.platform, machine.gpus, machine.has_nvidia) == (Platform.WSL, (), False)
    assert "on Windows" in machine.warnings[0]


def test_a_kernel_of_microsoft_without_dxg_is_no_wsl(root: Path) -> None:
    MachineTree(root).bare(release="6.6.87.2-microsoft-standard-WSL2")
    assert detect(root, NO_PROGRAMS).platform is Platform.NATIVE


def test_amd_cards_and_apus(root: Path) -> None:
    machine = detect(amd_machine(root).root, NO_PROGRAMS)
    assert [(gpu.name, gpu.address, gpu.memory_mib, gpu.render_node, gpu.uuid) for gpu in machine.gpus] == [
        (
            "AMD Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]",
            "0000:03:00.0",
            24576,
            "/dev/dri/renderD128",
            "7f0e2c1b9a8d6543",
        ),
        ("AMD GPU 1002:6798", "0000:05:00.0", None, "/dev/dri/renderD130", None),
        ("AMD Strix [Radeon 880M / 890M]", "0000:c4:00.0", 512, "/dev/dri/renderD129", None),
    ]
    # In-tree drivers have no version of their own.
    assert {gpu.driver_version for gpu in machine.gpus} == {"6.12.48+deb13-amd64"}
    (warning,) = machine.warnings
    assert "0000:05:00.0" in warning
    assert "cannot compute" in warning


def test_the_version_of_amds_own_driver(root: Path) -> None:
    amd_machine(root).write("sys/module/amdgpu/version", "6.12.12\n")
    assert detect(root, NO_PROGRAMS).gpus[0].driver_version == "6.12.12"


def test_the_partitions_of_a_card_are_one_gpu(root: Path) -> None:
    (gpu,) = detect(partitioned_machine(root).root, NO_PROGRAMS).gpus
    assert (gpu.address, gpu.render_node) == ("0000:09:00.0", "/dev/dri/renderD128")
    assert {"/dev/dri/renderD128", "/dev/dri/renderD129"} < gpu.nodes


def test_intel_is_a_gpu_and_a_servers_console_is_none(root: Path) -> None:
    (gpu,) = detect(intel_machine(root).root, NO_PROGRAMS).gpus
    assert (gpu.vendor, gpu.name, gpu.driver) == ("intel", "Intel DG2 [Arc A770]", "xe")


def test_intels_neural_processor_is_no_gpu(root: Path) -> None:
    MachineTree(root).bare().pci_card("0000:00:0b.0", INTEL, 0x7D1D, driver="intel_vpu", class_code=0x120000)
    assert detect(root, NO_PROGRAMS).gpus == ()


def test_a_virtual_machine_with_passthrough(root: Path) -> None:
    machine = detect(passthrough_machine(root).root, NO_PROGRAMS)
    assert [(gpu.vendor, gpu.address, gpu.driver) for gpu in machine.gpus] == [
        ("virtio", "0000:00:02.0", "virtio_gpu"),
        ("nvidia", "0000:00:05.0", "nvidia"),
    ]
    assert machine.warnings == ()


def test_the_gpu_of_a_board_is_on_no_bus(root: Path) -> None:
    tree = MachineTree(root).bare()
    tree.platform_card("fb000000.gpu", 128, "panthor")
    (gpu,) = detect(root, NO_PROGRAMS).gpus
    assert (gpu.vendor, gpu.name, gpu.address) == ("other", "panthor GPU", None)


def test_a_machine_without_gpus(root: Path) -> None:
    machine = detect(MachineTree(root).bare().root, NO_PROGRAMS)
    assert machine == Machine(hostname="testbed")


def test_several_vendors_at_once_are_in_the_order_of_addresses(root: Path) -> None:
    tree = amd_machine(root)
    tree.nvidia_driver()
    tree.pci_card("10000:01:00.0", NVIDIA, 0x2204, driver="nvidia")
    tree.nvidia_gpu("10000:01:00.0", 0, UUID_0)
    tree.pci_card("0000:02:00.0", INTEL, 0x56A0, 131, driver="xe")
    assert [gpu.address for gpu in detect(root, NO_PROGRAMS).gpus] == [
        "0000:02:00.0",
        "0000:03:00.0",
        "0000:05:00.0",
        "0000:c4:00.0",
        "10000:01:00.0",
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00010000:C1:00.0", "10000:c1:00.0"),
        ("0000:01:00.0\n", "0000:01:00.0"),
        ("01:00.0", None),
        ("[N/A]", None),
    ],
)
def test_addresses_as_tools_write_them(text: str, address: str | None) -> None:
    assert normal_address(text) == address


def test_a_line_of_nvidia_smi() -> None:
    gpu = parse_line(f"3, {UUID_0}, NVIDIA GB10, [N/A], 580.95.05, 0000000F:01:00.0")
    assert gpu is not None
    assert (gpu.index, gpu.memory_mib, gpu.address) == (3, None, "000f:01:00.0")
    named = parse_line(f"0, {UUID_0}, Odd, Name, 1024, [N/A], 00000000:01:00.0")
    assert named is not None
    assert (named.name, named.driver_version) == ("Odd, Name", None)


@pytest.mark.parametrize(
    "line",
    ["", "No devices were found", SMI_LINES[:20], "Warning: infoROM is corrupted, really, at, gpu, x, y"],
)
def test_other_lines_of_nvidia_smi_are_no_gpus(line: str) -> None:
    assert parse_line(line) is None

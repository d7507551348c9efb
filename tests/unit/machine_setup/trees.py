"""Whole machines for the tests of set-up: what the kernel, the drivers and the distribution show of them.

The wording and the units are those of the drivers' real files.
"""

from pathlib import Path

from tests.trees import AMD, INTEL, NVIDIA, Machine, location

PCI_IDS = """\
# A few lines in the form of the real list.
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t150e  Strix [Radeon 880M / 890M]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
\t\t1002 0e3b  RX 7900 GRE
\t74a1  Aqua Vanjaram [Instinct MI300X]
10de  NVIDIA Corporation
\t2204  GA102 [GeForce RTX 3090]
\t20b0  GA100 [A100 SXM4 40GB]
1af4  Red Hat, Inc.
\t1050  Virtio 1.0 GPU
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
"""

UUID_0 = "GPU-5a2b8c1e-0f4d-4c1b-9a57-3d2e6b7f8091"
UUID_1 = "GPU-c0ffee00-1234-4abc-8def-0123456789ab"

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build  "
    "(dvs-builder@U16-I3)  Tue Jun  4 01:03:16 UTC 2024\n"
)
_GCC = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"

_DISTRIBUTIONS = {
    "debian": 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n',
    "ubuntu": 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n',
    "fedora": 'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=42\n',
    "rocky": 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n',
    "suse": 'NAME="openSUSE Leap"\nID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n',
}


class MachineTree(Machine):
    """A machine with more than its render nodes: a distribution, vendors' drivers, programs."""

    def write(self, path: str, text: str) -> Path:
        """A file with `text`."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def bare(self, *, distribution: str = "debian", release: str = "6.12.48+deb13-amd64") -> "MachineTree":
        """What every machine has: a kernel, a distribution, systemd, the list of PCI names."""
        self.write("proc/sys/kernel/osrelease", f"{release}\n")
        self.write("proc/sys/kernel/hostname", "testbed\n")
        self.write("etc/os-release", _DISTRIBUTIONS[distribution])
        self.write("usr/share/misc/pci.ids", PCI_IDS)
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)
        return self

    def nvidia_driver(self, wording: str = PROPRIETARY) -> None:
        """NVIDIA's kernel module is loaded, with its control nodes."""
        self.write("proc/driver/nvidia/version", wording + _GCC)
        (self.root / "proc/driver/nvidia/gpus").mkdir(parents=True, exist_ok=True)
        (self.root / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
        for name, major, minor in (
            ("nvidiactl", 195, 255),
            ("nvidia-uvm", 511, 0),
            ("nvidia-uvm-tools", 511, 1),
        ):
            self.node(f"dev/{name}", major, minor)

    def nvidia_gpu(self, address: str, minor: int, uuid: str, model: str = "NVIDIA GeForce RTX 3090") -> None:
        """The driver's entry for a card, and its node; a uuid of ``?``: nothing has opened the card yet."""
        shown = uuid if uuid != "?" else "GPU-????????-????-????-????-????????????"
        self.write(
            f"proc/driver/nvidia/gpus/{address}/information",
            f"Model: \t\t {model}\nIRQ:   \t\t 77\nGPU UUID: \t {shown}\nVideo BIOS: \t 94.02.4b.00.0b\n"
            f"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
        )
        self.node(f"dev/nvidia{minor}", 195, minor)

    def program(self, path: str, text: str = "#!/bin/sh\n") -> Path:
        """An executable."""
        file = self.write(path, text)
        file.chmod(0o755)
        return file


def nvidia_machine(root: Path, *, wording: str = PROPRIETARY, distribution: str = "debian") -> MachineTree:
    """A native machine with NVIDIA's driver and two cards, of which the second has no render node."""
    tree = MachineTree(root).bare(distribution=distribution)
    tree.nvidia_driver(wording)
    tree.pci_card("0000:01:00.0", NVIDIA, 0x2204, 128, driver="nvidia")
    tree.nvidia_gpu("0000:01:00.0", 0, UUID_0)
    tree.pci_card("0000:41:00.0", NVIDIA, 0x20B0, driver="nvidia", class_code=0x030200)
    tree.nvidia_gpu("0000:41:00.0", 1, UUID_1, "NVIDIA A100-SXM4-40GB")
    return tree


def wsl_machine(root: Path, *, nvidia: bool = True) -> MachineTree:
    """Windows' subsystem: /dev/dxg, vgem's render node, NVIDIA's user-mode driver for a card of NVIDIA's."""
    tree = MachineTree(root).bare(distribution="ubuntu", release="5.15.167.4-microsoft-standard-WSL2")
    tree.node("dev/dxg", 10, 125)
    vgem = tree.platform_card("vgem", 128)
    (vgem / "uevent").write_text("MODALIAS=platform:vgem\n")  # as it is: a device without a driver
    if nvidia:
        tree.write("usr/lib/wsl/lib/libcuda.so.1", "")
    return tree


def amd_machine(root: Path) -> MachineTree:
    """A discrete card, an APU, and a card that KFD does not list."""
    tree = MachineTree(root).bare()
    tree.kfd_cpu()
    card = tree.pci_card("0000:03:00.0", AMD, 0x744C, 128, driver="amdgpu", memory=24 << 30)
    (card / "unique_id").write_text("7f0e2c1b9a8d6543\n")
    tree.kfd_node(1, 128, location(0x03), 0x7F0E2C1B9A8D6543, memory=24 << 30)
    tree.pci_card("0000:c4:00.0", AMD, 0x150E, 129, driver="amdgpu", class_code=0x038000, memory=512 << 20)
    tree.kfd_node(2, 129, location(0xC4), simd_count=32, memory=512 << 20)
    tree.pci_card("0000:05:00.0", AMD, 0x6798, 130, driver="amdgpu")
    return tree


def partitioned_machine(root: Path) -> MachineTree:
    """A card in two partitions: the first is the PCI function, the other a platform device."""
    tree = MachineTree(root).bare()
    tree.pci_card("0000:09:00.0", AMD, 0x74A1, 128, driver="amdgpu", class_code=0x120000)
    tree.platform_card("amdgpu_xcp_0", 129)
    for partition in (0, 1):
        tree.kfd_node(1 + partition, 128 + partition, location(0x09, 0, partition), 0x51A9, memory=96 << 30)
    return tree


def intel_machine(root: Path) -> MachineTree:
    """An Intel card, and the display controller of the server's own management."""
    tree = MachineTree(root).bare()
    tree.pci_card("0000:03:00.0", INTEL, 0x56A0, 128, driver="xe")
    tree.pci_card("0000:02:00.0", 0x1A03, 0x2000, driver="ast")
    return tree


def passthrough_machine(root: Path) -> MachineTree:
    """A virtual machine with an NVIDIA card of the host's beside its emulated and its virtio display."""
    tree = MachineTree(root).bare()
    tree.pci_card("0000:00:01.0", 0x1234, 0x1111, driver="bochs-drm")
    tree.virtio_card("0000:00:02.0", 128)
    tree.nvidia_driver(OPEN)
    tree.pci_card("0000:00:05.0", NVIDIA, 0x20B0, driver="nvidia", class_code=0x030200)
    tree.nvidia_gpu("0000:00:05.0", 0, UUID_0, "NVIDIA A100-SXM4-40GB")
    return tree

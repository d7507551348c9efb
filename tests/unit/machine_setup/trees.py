"""Machines as the kernel shows them: sysfs, proc, dev and etc below a root of a test's own.

Paths, symlinks, wording and units are those of Linux 6.x and of the drivers' real files; device nodes are
real ones where the test runs as root.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class MachineTree:
    """Builds one machine below `root`, piece by piece."""

    root: Path

    def write(self, path: str, text: str) -> Path:
        """A file with `text`."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def link(self, path: str, target: Path) -> None:
        """A symlink to `target` (below the root), relative as sysfs has them."""
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))

    def node(self, path: str, major: int, minor: int) -> None:
        """A character device; an empty file where the test may not make one."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.mknod(file, 0o660 | stat.S_IFCHR, os.makedev(major, minor))
        else:
            file.touch()

    def bare(self, *, distribution: str = "debian", release: str = "6.12.48+deb13-amd64") -> "MachineTree":
        """What every machine has: a kernel, a distribution, systemd, the list of PCI names."""
        self.write("proc/sys/kernel/osrelease", f"{release}\n")
        self.write("proc/sys/kernel/hostname", "testbed\n")
        self.write("etc/os-release", _DISTRIBUTIONS[distribution])
        self.write("usr/share/misc/pci.ids", PCI_IDS)
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)
        self.write("etc/group", "root:x:0:\nvideo:x:44:\nrender:x:992:\n")
        return self

    def pci(
        self, address: str, vendor: int, device: int, *, driver: str | None = None, display: int = 0x030000
    ) -> Path:
        """A PCI display device, with a driver bound to it or without."""
        directory = f"sys/devices/pci{address[:4]}:00/{address}"
        self.write(f"{directory}/vendor", f"0x{vendor:04x}\n")
        self.write(f"{directory}/device", f"0x{device:04x}\n")
        self.write(f"{directory}/class", f"0x{display:06x}\n")
        self.write(
            f"{directory}/uevent",
            (f"DRIVER={driver}\n" if driver else "")
            + f"PCI_CLASS={display:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={address}\n",
        )
        self.link(f"sys/bus/pci/devices/{address}", self.root / directory)
        self.link(f"{directory}/subsystem", self.root / "sys/bus/pci")
        if driver:
            self._driver("pci", directory, driver)
        return self.root / directory

    def virtio(self, address: str, device: int, driver: str) -> Path:
        """A virtio device: what has the driver is on the virtio bus, below the PCI device."""
        parent = self.pci(address, 0x1AF4, device, driver="virtio-pci")
        directory = f"{parent.relative_to(self.root)}/virtio0"
        self.write(f"{directory}/vendor", "0x1af4\n")
        self.write(f"{directory}/device", "0x0010\n")
        self.write(f"{directory}/uevent", f"DRIVER={driver}\nMODALIAS=virtio:d00000010v00001AF4\n")
        self.link(f"{directory}/subsystem", self.root / "sys/bus/virtio")
        self._driver("virtio", directory, driver)
        return self.root / directory

    def platform(self, name: str, driver: str) -> Path:
        """A platform device, as vgem and the partitions of a card are: no vendor file."""
        directory = f"sys/devices/platform/{name}"
        self.write(f"{directory}/uevent", f"DRIVER={driver}\nMODALIAS=platform:{name}\n")
        self.link(f"{directory}/subsystem", self.root / "sys/bus/platform")
        self._driver("platform", directory, driver)
        return self.root / directory

    def _driver(self, bus: str, directory: str, driver: str) -> None:
        known = self.root / f"sys/bus/{bus}/drivers/{driver}"
        known.mkdir(parents=True, exist_ok=True)
        self.link(f"{directory}/driver", known)
        (self.root / f"sys/module/{driver}").mkdir(parents=True, exist_ok=True)

    def drm(self, device: Path, *, render: int, card: int) -> None:
        """The DRM nodes of `device`: renderD<render> and card<card>, in sysfs and in /dev."""
        for name, minor in ((f"renderD{render}", render), (f"card{card}", card)):
            node = device / "drm" / name
            relative = str(node.relative_to(self.root))
            self.write(f"{relative}/dev", f"226:{minor}\n")
            self.write(
                f"{relative}/uevent", f"MAJOR=226\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"
            )
            self.link(f"{relative}/device", device)
            self.link(f"sys/class/drm/{name}", node)
            self.node(f"dev/dri/{name}", 226, minor)

    def kfd(
        self,
        node: int,
        *,
        render: int,
        location: int,
        domain: int | None = 0,
        simd: int = 384,
        unique_id: int = 0,
        vram: int = 0,
    ) -> None:
        """A node of KFD's topology; `simd` 0 is a CPU."""
        directory = f"sys/class/kfd/kfd/topology/nodes/{node}"
        properties = {
            "cpu_cores_count": 0 if simd else 16,
            "simd_count": simd,
            "mem_banks_count": 1,
            "location_id": location,
            "drm_render_minor": render,
            "unique_id": unique_id,
            "vendor_id": 4098,
        }
        if domain is not None:
            properties["domain"] = domain
        self.write(
            f"{directory}/properties", "".join(f"{key} {value}\n" for key, value in properties.items())
        )
        self.write(f"{directory}/gpu_id", f"{node * 1000 if simd else 0}\n")
        self.write(f"{directory}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {vram}\nflags 0\n")
        if not (self.root / "dev/kfd").exists():
            self.node("dev/kfd", 234, 0)

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


def nvidia_machine(
    root: Path, *, wording: str = PROPRIETARY, cards: int = 2, distribution: str = "debian"
) -> MachineTree:
    """A native machine with NVIDIA's driver and one or two cards; the second card has no render node."""
    tree = MachineTree(root).bare(distribution=distribution)
    tree.nvidia_driver(wording)
    first = tree.pci("0000:01:00.0", 0x10DE, 0x2204, driver="nvidia")
    tree.nvidia_gpu("0000:01:00.0", 0, UUID_0)
    tree.drm(first, render=128, card=0)
    if cards > 1:
        tree.pci("0000:41:00.0", 0x10DE, 0x20B0, driver="nvidia", display=0x030200)
        tree.nvidia_gpu("0000:41:00.0", 1, UUID_1, "NVIDIA A100-SXM4-40GB")
    return tree


def wsl_machine(root: Path, *, nvidia: bool = True) -> MachineTree:
    """Windows' subsystem: /dev/dxg, vgem's render node, NVIDIA's user-mode driver for a card of NVIDIA's."""
    tree = MachineTree(root).bare(distribution="ubuntu", release="5.15.167.4-microsoft-standard-WSL2")
    tree.node("dev/dxg", 10, 125)
    tree.drm(tree.platform("vgem", "vgem"), render=128, card=0)
    if nvidia:
        tree.write("usr/lib/wsl/lib/libcuda.so.1", "")
    return tree


def amd_machine(root: Path) -> MachineTree:
    """A discrete card, an APU, and a card that KFD does not list."""
    tree = MachineTree(root).bare()
    tree.kfd(0, render=0, location=0, simd=0)
    card = tree.pci("0000:03:00.0", 0x1002, 0x744C, driver="amdgpu")
    tree.drm(card, render=128, card=1)
    tree.write("sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_total", f"{24 << 30}\n")
    tree.write("sys/devices/pci0000:00/0000:03:00.0/unique_id", "7f0e2c1b9a8d6543\n")
    tree.kfd(1, render=128, location=0x0300, unique_id=0x7F0E2C1B9A8D6543, vram=24 << 30)
    apu = tree.pci("0000:c4:00.0", 0x1002, 0x150E, driver="amdgpu", display=0x038000)
    tree.drm(apu, render=129, card=0)
    tree.write("sys/devices/pci0000:00/0000:c4:00.0/mem_info_vram_total", f"{512 << 20}\n")
    tree.kfd(2, render=129, location=0xC400, domain=None, simd=32, vram=512 << 20)
    old = tree.pci("0000:05:00.0", 0x1002, 0x6798, driver="amdgpu")
    tree.drm(old, render=130, card=2)
    return tree


def partitioned_machine(root: Path) -> MachineTree:
    """A card in two partitions: the first is the PCI function, the other a platform device."""
    tree = MachineTree(root).bare()
    card = tree.pci("0000:09:00.0", 0x1002, 0x74A1, driver="amdgpu", display=0x038000)
    tree.drm(card, render=128, card=0)
    tree.write("sys/devices/pci0000:00/0000:09:00.0/mem_info_vram_total", f"{192 << 30}\n")
    tree.drm(tree.platform("amdgpu_xcp_0", "amdgpu_xcp_drv"), render=129, card=1)
    for node, (render, function) in enumerate(((128, 0), (129, 1)), start=1):
        tree.kfd(node, render=render, location=0x0900 | function, unique_id=0x51A9, vram=96 << 30)
    return tree


def intel_machine(root: Path) -> MachineTree:
    """An Intel card, and the display controller of the server's own management."""
    tree = MachineTree(root).bare()
    tree.drm(tree.pci("0000:03:00.0", 0x8086, 0x56A0, driver="xe"), render=128, card=1)
    tree.pci("0000:02:00.0", 0x1A03, 0x2000, driver="ast")
    return tree


def passthrough_machine(root: Path) -> MachineTree:
    """A virtual machine with an NVIDIA card of the host's beside its emulated and its virtio display."""
    tree = MachineTree(root).bare()
    tree.pci("0000:00:01.0", 0x1234, 0x1111, driver="bochs-drm")
    tree.drm(tree.virtio("0000:00:02.0", 0x1050, "virtio_gpu"), render=128, card=0)
    tree.nvidia_driver(OPEN)
    tree.pci("0000:00:05.0", 0x10DE, 0x20B0, driver="nvidia", display=0x030200)
    tree.nvidia_gpu("0000:00:05.0", 0, UUID_0, "NVIDIA A100-SXM4-40GB")
    return tree

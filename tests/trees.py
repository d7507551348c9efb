"""Builds sysfs trees laid out as the kernel lays them out, for tests of what reads them."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

INTEL, AMD, NVIDIA, VIRTIO = 0x8086, 0x1002, 0x10DE, 0x1AF4
RENDER_MAJOR = 226


@dataclass
class Machine:
    """A machine's tree below `root`. With `dev`, it has device nodes too: real ones where root builds it."""

    root: Path
    dev: bool = True

    def __post_init__(self) -> None:
        (self.root / "sys/class/drm").mkdir(parents=True)
        (self.root / "etc").mkdir(exist_ok=True)
        (self.root / "etc/group").write_text("root:x:0:\nvideo:x:44:\nrender:x:105:\n", encoding="utf-8")
        if self.dev:
            (self.root / "dev/dri").mkdir(parents=True)

    def pci_card(
        self,
        address: str,
        vendor: int,
        product: int,
        minor: int | None = None,
        *,
        driver: str | None = None,
        class_code: int = 0x030000,
        memory: int | None = None,
    ) -> Path:
        """A card on the PCI bus, with a DRM driver when it has a render node `minor`."""
        device = self.root / "sys/devices/pci0000:00" / address
        write(device / "vendor", f"0x{vendor:04x}")
        write(device / "device", f"0x{product:04x}")
        write(device / "class", f"0x{class_code:06x}")
        uevent = [f"PCI_ID={vendor:04X}:{product:04X}", f"PCI_SLOT_NAME={address}"]
        if driver:
            uevent.insert(0, f"DRIVER={driver}")
            link(device / "driver", self.root / "sys/bus/pci/drivers" / driver)
        write(device / "uevent", "\n".join(uevent))
        if memory is not None:
            write(device / "mem_info_vram_total", str(memory))
        link(self.root / "sys/bus/pci/devices" / address, device)
        if minor is not None:
            self.render_node(device, minor)
        return device

    def platform_card(self, name: str, minor: int, driver: str | None = None) -> Path:
        """A device without a PCI identity: vgem, a partition of an AMD card, the GPU of a board."""
        device = self.root / "sys/devices/platform" / name
        driver = driver or name.split("_", maxsplit=1)[0]
        write(device / "uevent", f"DRIVER={driver}\nMODALIAS=platform:{name}")
        self.render_node(device, minor)
        return device

    def virtio_card(self, address: str, minor: int) -> Path:
        """A virtio GPU: its DRM device hangs off the virtio bus, below the PCI device."""
        pci = self.pci_card(address, VIRTIO, 0x1050, driver="virtio-pci")
        device = pci / "virtio0"
        write(device / "vendor", f"0x{VIRTIO:04x}")
        write(device / "device", "0x0010")
        write(device / "uevent", "DRIVER=virtio_gpu\nMODALIAS=virtio:d00000010v00001AF4")
        self.render_node(device, minor)
        return device

    def render_node(self, device: Path, minor: int) -> None:
        """Nodes cardN and renderD<minor> of `device`."""
        for name in (f"card{minor - 128}", f"renderD{minor}"):
            node = device / "drm" / name
            write(node / "dev", f"{RENDER_MAJOR}:{minor if name.startswith('render') else minor - 128}")
            link(node / "device", device)
            link(self.root / "sys/class/drm" / name, node)
            self.node(f"dev/dri/{name}", RENDER_MAJOR, minor if name.startswith("render") else minor - 128)

    def kfd_node(self, number: int, minor: int, location: int, unique_id: int = 0, **more: int) -> Path:
        """A GPU of AMD's compute topology. `memory` is its size in bytes."""
        node = self.root / "sys/class/kfd/kfd/topology/nodes" / str(number)
        memory = more.pop("memory", None)
        properties = {
            "cpu_cores_count": 0,
            "simd_count": 304,
            "vendor_id": AMD,
            "location_id": location,
            "domain": 0,
            "drm_render_minor": minor,
            "unique_id": unique_id,
            **more,
        }
        write(node / "properties", "\n".join(f"{key} {value}" for key, value in properties.items()))
        if memory is not None:
            write(node / "mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {memory}\nflags 0")
        self.node("dev/kfd", 234, 0)
        return node

    def kfd_cpu(self, number: int = 0) -> None:
        """The processor, which is a node of the topology too."""
        node = self.root / "sys/class/kfd/kfd/topology/nodes" / str(number)
        write(node / "properties", "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndrm_render_minor 0")
        write(node / "mem_banks/0/properties", "heap_type 0\nsize_in_bytes 1081848164352\nflags 0")

    def node(self, path: str, major: int, minor: int) -> None:
        """The character device `path`; an empty file where we may not make one."""
        file = self.root / path
        if not self.dev or file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.mknod(file, 0o660 | stat.S_IFCHR, os.makedev(major, minor))
        else:
            file.touch()

    def unplug(self, minor: int) -> None:
        """Take the card of renderD<minor> away, and leave its entry in /sys/class/drm dangling."""
        node = (self.root / "sys/class/drm" / f"renderD{minor}").resolve()
        for name in ("dev", "device"):
            (node / name).unlink()
        node.rmdir()
        if self.dev:
            (self.root / "dev/dri" / f"renderD{minor}").unlink()


def location(bus: int, device: int = 0, function: int = 0) -> int:
    """A place on the PCI bus as KFD encodes it."""
    return bus << 8 | device << 3 | function


def intel_card(root: Path) -> Machine:
    """One Intel card."""
    machine = Machine(root)
    machine.pci_card("0000:03:00.0", INTEL, 0x56A0, 128, driver="i915")
    return machine


def amd_card(root: Path) -> Machine:
    """One AMD card."""
    machine = Machine(root)
    machine.kfd_cpu()
    machine.pci_card("0000:c3:00.0", AMD, 0x744C, 128, driver="amdgpu", memory=25_753_026_560)
    machine.kfd_node(1, 128, location(0xC3), 0x3F1A, memory=25_753_026_560)
    return machine


def amd_apu_and_card(root: Path) -> Machine:
    """An AMD APU beside a card; the APU comes later on the bus and first in the topology."""
    machine = Machine(root)
    machine.pci_card("0000:e6:00.0", AMD, 0x1681, 128, driver="amdgpu", memory=536_870_912)
    machine.pci_card("0000:03:00.0", AMD, 0x73BF, 129, driver="amdgpu", memory=17_163_091_968)
    machine.kfd_node(0, 128, location(0xE6), cpu_cores_count=16, memory=536_870_912)
    machine.kfd_node(1, 129, location(0x03), 0x9C2D, memory=17_163_091_968)
    return machine


def amd_without_kfd(root: Path) -> Machine:
    """Two AMD cards, of which the compute driver knows one."""
    machine = amd_card(root)
    machine.pci_card("0000:04:00.0", AMD, 0x6611, 129, driver="radeon")
    return machine


def mi300_cpx(root: Path, cards: int = 1) -> Machine:
    """MI300X cards in CPX mode: eight partitions each, of which one has the PCI device."""
    machine = Machine(root)
    machine.kfd_cpu()
    minor, number = 128, 1
    for card in range(cards):
        bus = 0x0A + 0x10 * card
        machine.pci_card(f"0000:{bus:02x}:00.0", AMD, 0x74A1, minor, driver="amdgpu", class_code=0x120000)
        for partition in range(8):
            if partition:
                machine.platform_card(f"amdgpu_xcp_{card * 7 + partition - 1}", minor)
            machine.kfd_node(number, minor, location(bus, 0, partition), 0x84CD + card, memory=1 << 34)
            minor, number = minor + 1, number + 1
    return machine


def nvidia_and_intel(root: Path) -> Machine:
    """An NVIDIA card beside Intel's integrated one, and an NVIDIA card that no driver has."""
    machine = Machine(root)
    machine.pci_card("0000:00:02.0", INTEL, 0x4680, 128, driver="i915")
    machine.pci_card("0000:01:00.0", NVIDIA, 0x2684, 129, driver="nvidia")
    machine.pci_card("0000:02:00.0", NVIDIA, 0x2330, class_code=0x030200)
    return machine


def vgem_and_virtio(root: Path) -> Machine:
    """A virtual machine: a virtio GPU, and vgem."""
    machine = Machine(root)
    machine.virtio_card("0000:00:02.0", 128)
    machine.platform_card("vgem", 129)
    return machine


def no_gpu(root: Path) -> Machine:
    """A machine without a GPU."""
    return Machine(root)


def write(path: Path, content: str) -> None:
    """A sysfs attribute."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n", encoding="utf-8")


def link(path: Path, target: Path) -> None:
    """A relative symlink, as sysfs has them; its target need not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))

"""Reading sysfs: attributes, PCI identities, and the DRM render nodes.

Everything is read below a root directory, so that a test or another machine's tree reads the same way.
Nothing here raises for what a tree holds: a file that is missing, unreadable or nonsense is as absent, and
what cannot be used is left out with a warning. The order of every list is fixed by its contents.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x8086: "intel", 0x1AF4: "virtio"}

_RENDER_NAME = re.compile(r"renderD([0-9]{1,6})", re.ASCII)
_CARD_NAME = re.compile(r"card[0-9]{1,6}", re.ASCII)
PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII)
_INTEGER = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}", re.ASCII)
# A sysfs attribute is one page at most.
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class PciIdentity:
    """Which card it is: where it sits and what it is. An unknown part is `None`."""

    address: str | None = None
    vendor: int | None = None
    product: int | None = None

    @property
    def vendor_name(self) -> str:
        """``nvidia``, ``amd``, ``intel`` or ``virtio``; the vendor's number, or ``other`` without one."""
        if self.vendor is None:
            return "other"
        return VENDORS.get(self.vendor, f"0x{self.vendor:04x}")


@dataclass(frozen=True, slots=True)
class RenderNode:
    """One DRM render node, ``/dev/dri/renderD<minor>``.

    `parent` is the kernel's name of the device behind it: a PCI address, or a platform device such as
    ``vgem`` or a partition ``amdgpu_xcp_1``, which have no PCI identity. `card` is the primary node of the
    same device (``card0``), `memory` the video memory that the driver states, in bytes (amdgpu only; an
    APU's is its carve-out alone), `product_name` what the board's own record says, if it has one.
    """

    minor: int
    identity: PciIdentity
    driver: str | None = None
    parent: str = ""
    card: str | None = None
    memory: int | None = None
    product_name: str | None = None

    @property
    def name(self) -> str:
        """The node's name: ``renderD128``."""
        return f"renderD{self.minor}"

    @property
    def path(self) -> str:
        """The node's path on the machine."""
        return f"/dev/dri/{self.name}"


def address_key(address: str | None) -> tuple[int, ...]:
    """A key that sorts PCI addresses by number; what has none comes last."""
    match = PCI_ADDRESS.fullmatch(address or "")
    return tuple(int(part, 16) for part in match.groups()) if match else (1 << 32,)


def read_text(path: Path, longest: int = _LONGEST) -> str | None:
    """A sysfs attribute without its line end, `longest` bytes at most; `None` if there is none to read."""
    try:
        with path.open("rb") as file:
            return file.read(longest).decode("utf-8", "replace").strip("\n\0 \t")
    except OSError:
        return None


def read_number(path: Path, base: int = 0) -> int | None:
    """A sysfs attribute that is one number, in hexadecimal with ``0x``."""
    text = read_text(path)
    if text is None or not _INTEGER.fullmatch(text):
        return None
    try:
        return int(text, base)
    except ValueError:
        return None


def link_name(path: Path) -> str | None:
    """The last part of what the symlink `path` leads to, as sysfs names drivers and devices."""
    try:
        return path.readlink().name or None
    except OSError:
        return None


def in_dev(root: Path, path: str) -> bool:
    """Whether the device node `path` is there to be opened.

    A tree without the node's directory says nothing about nodes, and is believed to have them all.
    """
    node = root / path.lstrip("/")
    return not node.parent.is_dir() or node.exists()


def render_nodes(root: Path, warnings: list[str]) -> tuple[RenderNode, ...]:
    """The render nodes below `root`, in the order of their numbers."""
    return tuple(sorted(_render_nodes(root, warnings), key=lambda node: node.minor))


def _render_nodes(root: Path, warnings: list[str]) -> Iterator[RenderNode]:
    drm = root / "sys/class/drm"
    for name in listing(drm):
        match = _RENDER_NAME.fullmatch(name)
        if not match or name != f"renderD{int(match[1])}":
            continue
        entry = drm / name
        if not entry.is_dir():
            warnings.append(f"{name} is in /sys/class/drm without its device (unplugged?); left out")
        elif not in_dev(root, f"/dev/dri/{name}"):
            warnings.append(f"{name} is in /sys/class/drm, but not in /dev/dri; left out")
        else:
            yield _render_node(int(match[1]), entry / "device")


def _render_node(minor: int, device: Path) -> RenderNode:
    uevent = _uevent(device)
    cards = sorted(name for name in listing(device / "drm") if _CARD_NAME.fullmatch(name))
    return RenderNode(
        minor,
        _pci_identity(device, uevent),
        link_name(device / "driver") or uevent.get("DRIVER"),
        device.resolve().name if device.is_symlink() else "",
        cards[0] if cards else None,
        read_number(device / "mem_info_vram_total", 10),
        read_text(device / "product_name") or None,
    )


def _pci_identity(device: Path, uevent: dict[str, str]) -> PciIdentity:
    real = device.resolve()
    candidates = (uevent.get("PCI_SLOT_NAME", "").lower(), real.name.lower())
    address = next((text for text in candidates if PCI_ADDRESS.fullmatch(text)), None)
    # virtio's DRM device hangs off the virtio bus, whose parent is the PCI device. Its own vendor file
    # says the same, its device file holds virtio's type and not PCI's product.
    if address is None and real.name.startswith("virtio") and PCI_ADDRESS.fullmatch(real.parent.name):
        return _pci_identity(real.parent, {})
    return PciIdentity(address, read_number(device / "vendor", 16), read_number(device / "device", 16))


def _uevent(device: Path) -> dict[str, str]:
    text = read_text(device / "uevent") or ""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def listing(directory: Path) -> list[str]:
    """The names in `directory`, sorted; none if it cannot be read."""
    try:
        return sorted(path.name for path in directory.iterdir())
    except OSError:
        return []

"""The machine's GPUs as the kernel shows them, in one look."""

from dataclasses import dataclass
from pathlib import Path

from spec.kfd import ComputeCard, compute_cards
from spec.sysfs import (
    PCI_ADDRESS,
    PciIdentity,
    RenderNode,
    address_key,
    link_name,
    listing,
    read_number,
    render_nodes,
)

# Display controllers, and processing accelerators, as which AMD's and Intel's data centre cards appear.
_CLASSES = (0x03, 0x12)


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A display controller or processing accelerator on the PCI bus, whether a driver has it or not."""

    identity: PciIdentity
    class_code: int
    driver: str | None


@dataclass(frozen=True, slots=True)
class Topology:
    """What one look at a machine found."""

    render_nodes: tuple[RenderNode, ...] = ()
    amd_cards: tuple[ComputeCard, ...] = ()
    pci_gpus: tuple[PciGpu, ...] = ()
    warnings: tuple[str, ...] = ()


def read_topology(root: Path | str = "/") -> Topology:
    """The GPUs of the machine whose files are below `root`.

    Render nodes are in the order of their numbers, cards and PCI devices in that of their PCI addresses.
    """
    base = Path(root)
    warnings: list[str] = []
    nodes = render_nodes(base, warnings)
    cards = compute_cards(base, nodes, warnings)
    return Topology(nodes, cards, _pci_gpus(base), tuple(warnings))


def _pci_gpus(root: Path) -> tuple[PciGpu, ...]:
    found = []
    for name in listing(root / "sys/bus/pci/devices"):
        device = root / "sys/bus/pci/devices" / name
        class_code = read_number(device / "class", 16)
        if not PCI_ADDRESS.fullmatch(name) or class_code is None or class_code >> 16 not in _CLASSES:
            continue
        identity = PciIdentity(name, read_number(device / "vendor", 16), read_number(device / "device", 16))
        found.append(PciGpu(identity, class_code, link_name(device / "driver")))
    return tuple(sorted(found, key=lambda gpu: address_key(gpu.identity.address)))

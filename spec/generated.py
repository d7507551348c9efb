"""The specs that we make from the machine's topology: ``rediacc.io/dri`` and ``rediacc.io/amd``.

- ``rediacc.io/dri``: one device per DRM render node, named as the node.
- ``rediacc.io/amd``: ``gpu<N>`` per AMD card that the compute driver lists, in the order of the bus, with
  the render nodes of all its partitions, and ``all``.

A device node is written as its path alone: with numbers the engine would not look at the node, and would
inject a stale one silently. In the container it is in the machine's group ``render``, where there is one,
and of the runtime's mode, 0666 (seen with Docker 26.1 and 28.5): any user of the container opens it.
"""

from pathlib import Path

from spec.kfd import ComputeCard
from spec.model import ContainerEdits, Device, DeviceNode, Spec
from spec.sysfs import PciIdentity, RenderNode, read_text
from spec.topology import Topology

DRI_KIND = "rediacc.io/dri"
AMD_KIND = "rediacc.io/amd"
# The first version with annotations, and the last that Docker 25 reads.
_VERSION = "0.6.0"
_KFD = "/dev/kfd"

ADDRESS = "rediacc.io/pci-address"
VENDOR = "rediacc.io/vendor"
PRODUCT = "rediacc.io/product"
PARENT = "rediacc.io/parent"
IDENTITY = (ADDRESS, VENDOR, PRODUCT, PARENT)


def render_group(root: Path) -> int | None:
    """The number of the group ``render`` on the machine below `root`; `None` if it has none."""
    for line in (read_text(root / "etc/group", 1 << 20) or "").splitlines():
        fields = line.split(":")
        if fields[0] == "render" and len(fields) >= 3 and fields[2].isdecimal():
            return int(fields[2])
    return None


def dri_spec(topology: Topology, gid: int | None) -> Spec | None:
    """The spec of the render nodes; `None` without any."""
    cards = {node.minor: card for card in topology.amd_cards for node in card.nodes}
    devices = tuple(
        Device(node.name, _edits([node.path], gid), _node_identity(node, cards.get(node.minor)))
        for node in topology.render_nodes
    )
    return Spec(_VERSION, DRI_KIND, devices) if devices else None


def amd_spec(topology: Topology, gid: int | None) -> Spec | None:
    """The spec of AMD's compute cards; `None` without any."""
    cards = topology.amd_cards
    if not cards:
        return None
    devices = [
        Device(f"gpu{index}", _card_edits([card], gid), _annotations(card.identity))
        for index, card in enumerate(cards)
    ]
    addresses = ",".join(card.identity.address or "?" for card in cards)
    devices.append(Device("all", _card_edits(cards, gid), {ADDRESS: addresses}))
    return Spec(_VERSION, AMD_KIND, tuple(devices))


def _card_edits(cards: list[ComputeCard] | tuple[ComputeCard, ...], gid: int | None) -> ContainerEdits:
    return _edits([_KFD, *(node.path for card in cards for node in card.nodes)], gid)


def _edits(paths: list[str], gid: int | None) -> ContainerEdits:
    return ContainerEdits(
        device_nodes=tuple(DeviceNode(path=path, permissions="rw", gid=gid) for path in paths)
    )


def _node_identity(node: RenderNode, card: ComputeCard | None) -> dict[str, str]:
    if node.identity.address:
        return _annotations(node.identity)
    # A partition has no PCI device of its own, but its card has; vgem has none at all.
    annotations = _annotations(card.identity if card else node.identity)
    return {**annotations, PARENT: node.parent} if node.parent else annotations


def _annotations(identity: PciIdentity) -> dict[str, str]:
    found = {
        ADDRESS: identity.address,
        VENDOR: None if identity.vendor is None else f"0x{identity.vendor:04x}",
        PRODUCT: None if identity.product is None else f"0x{identity.product:04x}",
    }
    return {key: value for key, value in found.items() if value is not None}

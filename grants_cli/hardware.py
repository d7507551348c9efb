"""What the machine says about the nodes of a device: which they really are, and of which card."""

import os
import re
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from grants_cli.overlap import Footprint, Identity, Node, footprint
from spec.layout import Layout
from spec.model import ContainerEdits, DeviceNode

_DRI_NODE = re.compile(r".*/dev/dri/((?:card|renderD)[0-9]+)")
_NVIDIA_NODE = re.compile(r".*/dev/nvidia([0-9]+)")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_MINOR = re.compile(rb"^Device Minor:\s*([0-9]+)\s*$", re.MULTILINE)


class Hardware:
    """The kernel's view of the cards, from the sysfs and procfs below the layout's root.

    Nodes are looked up where a spec says they are: dockerd opens that very path.
    """

    def __init__(self, layout: Layout) -> None:
        self._drm = layout.root / "sys/class/drm"
        self._nvidia = layout.root / "proc/driver/nvidia/gpus"

    def footprint(self, edits: ContainerEdits) -> Footprint:
        """The hardware that `edits` give to a container."""
        return footprint(tuple(map(self._node, edits.device_nodes)))

    def _node(self, node: DeviceNode) -> Node:
        identities: set[Identity] = {node.source, os.path.realpath(node.source)}
        if node.major is not None and node.minor is not None:
            identities.add((node.type or "c", node.major, node.minor))
        # The spec's numbers may be stale, and the node at the path is then another device: both count.
        identities.update(_numbers(node.source))
        card, siblings = self._card(os.path.realpath(node.source))
        return Node(node.source, frozenset(identities), siblings, card)

    def _card(self, path: str) -> tuple[str, tuple[str, ...]]:
        """The PCI address of the card of the node at `path`, and the DRI nodes of the same card."""
        if match := _DRI_NODE.fullmatch(path):
            device = self._drm / match[1] / "device"
            return _pci_address(device), tuple(_dri_nodes(device))
        if match := _NVIDIA_NODE.fullmatch(path):
            address = self._nvidia_cards.get(int(match[1]), "")
            return address, self._dri_nodes_of.get(address, ())
        return "", ()

    @cached_property
    def _nvidia_cards(self) -> dict[int, str]:
        """PCI addresses by the number N of /dev/nvidiaN, as the driver says."""
        cards = {}
        for information in self._nvidia.glob("*/information"):
            try:
                match = _MINOR.search(information.read_bytes())
            except OSError:
                continue
            if match:
                cards[int(match[1])] = information.parent.name.lower()
        return cards

    @cached_property
    def _dri_nodes_of(self) -> dict[str, tuple[str, ...]]:
        """The DRI nodes of each card, by PCI address."""
        devices = [path / "device" for path in self._drm.glob("renderD*")]
        return {_pci_address(device): tuple(_dri_nodes(device)) for device in devices if _pci_address(device)}


def _numbers(path: str) -> Iterator[Identity]:
    try:
        state = Path(path).stat()
    except OSError:
        return
    kind = "c" if stat.S_ISCHR(state.st_mode) else "b" if stat.S_ISBLK(state.st_mode) else ""
    if kind:
        yield kind, os.major(state.st_rdev), os.minor(state.st_rdev)


def _pci_address(device: Path) -> str:
    """The PCI address of a sysfs device or of its nearest ancestor that has one; empty without."""
    for part in reversed(Path(os.path.realpath(device)).parts):
        if _PCI_ADDRESS.fullmatch(part):
            return part.lower()
    return ""


def _dri_nodes(device: Path) -> Iterator[str]:
    for node in sorted((device / "drm").glob("*")):
        if re.fullmatch(r"(card|renderD)[0-9]+", node.name):
            yield f"/dev/dri/{node.name}"

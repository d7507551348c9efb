"""What the machine says about the nodes of a device: which they really are, and of which card."""

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from grants_cli.overlap import Footprint, Identity, Node, footprint
from spec.layout import Layout
from spec.model import ContainerEdits, DeviceNode
from spec.sysfs import RenderNode, render_nodes

_DRI_NODE = re.compile(r".*/dev/dri/((?:card|renderD)[0-9]+)")
_NVIDIA_NODE = re.compile(r".*/dev/nvidia([0-9]+)")
_MINOR = re.compile(rb"^Device Minor:\s*([0-9]+)\s*$", re.MULTILINE)


class Hardware:
    """The kernel's view of the cards, from the sysfs and procfs below the layout's root.

    Nodes are looked up where a spec says they are: dockerd opens that very path.
    """

    def __init__(self, layout: Layout) -> None:
        self._root = layout.root

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
            node = self._dri.get(match[1])
            return (node.identity.address or "", tuple(_paths(node))) if node else ("", ())
        if match := _NVIDIA_NODE.fullmatch(path):
            address = self._nvidia_cards.get(int(match[1]), "")
            return address, tuple(self._dri_of_card[address]) if address else ()
        return "", ()

    @cached_property
    def _nvidia_cards(self) -> dict[int, str]:
        """PCI addresses by the number N of /dev/nvidiaN, as the driver says."""
        cards = {}
        for information in (self._root / "proc/driver/nvidia/gpus").glob("*/information"):
            try:
                match = _MINOR.search(information.read_bytes())
            except OSError:
                continue
            if match:
                cards[int(match[1])] = information.parent.name.lower()
        return cards

    @cached_property
    def _render_nodes(self) -> tuple[RenderNode, ...]:
        return render_nodes(self._root, [])

    @cached_property
    def _dri(self) -> dict[str, RenderNode]:
        """The kernel's DRI devices by the names of their render and primary nodes."""
        named = {node.name: node for node in self._render_nodes}
        return named | {node.card: node for node in self._render_nodes if node.card}

    @cached_property
    def _dri_of_card(self) -> dict[str, list[str]]:
        """The paths of the DRI nodes of each card, by PCI address."""
        paths: dict[str, list[str]] = defaultdict(list)
        for node in self._render_nodes:
            if node.identity.address:
                paths[node.identity.address] += _paths(node)
        return paths


def _paths(node: RenderNode) -> Iterator[str]:
    yield node.path
    if node.card:
        yield f"/dev/dri/{node.card}"


def _numbers(path: str) -> Iterator[Identity]:
    try:
        state = Path(path).stat()
    except OSError:
        return
    kind = "c" if stat.S_ISCHR(state.st_mode) else "b" if stat.S_ISBLK(state.st_mode) else ""
    if kind:
        yield kind, os.major(state.st_rdev), os.minor(state.st_rdev)

"""AMD's compute topology (KFD), which says which render nodes can compute and belong to one card.

``/sys/class/kfd/kfd/topology/nodes/*/properties`` has a line ``key value`` per property. A node with
``simd_count`` above 0 is a GPU, or one partition of a GPU. The partitions of a card share its
``unique_id``; their ``location_id`` is the card's, but for the function, which is the partition's number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spec.sysfs import PciIdentity, RenderNode, address_key, in_dev, listing, read_text

_AMD = 0x1002
_NODE_NAME = re.compile(r"[0-9]{1,6}", re.ASCII)
_PROPERTY = re.compile(r"([a-z_0-9]+)[ \t]+([0-9]+)", re.ASCII)
_SYSTEM_MEMORY = 0


@dataclass(frozen=True, slots=True)
class ComputeCard:
    """One AMD card that the compute driver (KFD) knows, all its partitions together.

    `identity.address` is that of the card, whose function is that of its first partition. `memory` is the
    sum over the partitions, in bytes.
    """

    identity: PciIdentity
    nodes: tuple[RenderNode, ...]
    partitions: int = 1
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class _Gpu:
    domain: int
    location: int
    unique_id: int
    minor: int
    memory: int | None

    @property
    def address(self) -> str:
        bus, device, function = self.location >> 8 & 255, self.location >> 3 & 31, self.location & 7
        return f"{self.domain:04x}:{bus:02x}:{device:02x}.{function}"

    def card(self) -> tuple[int, ...]:
        """What the partitions of one card have in common, and no two cards do."""
        # Without a unique id there are no partitions, and the function counts.
        place = self.location & ~7 if self.unique_id else self.location
        return (self.domain, place, self.unique_id)


def compute_cards(root: Path, nodes: tuple[RenderNode, ...], warnings: list[str]) -> tuple[ComputeCard, ...]:
    """The AMD cards below `root` that KFD lists, by PCI address, with those of `nodes` that are theirs."""
    by_minor = {node.minor: node for node in nodes}
    grouped: dict[tuple[int, ...], list[_Gpu]] = {}
    for gpu in _gpus(root / "sys/class/kfd/kfd/topology/nodes", warnings):
        if gpu.minor not in by_minor:
            warnings.append(
                f"AMD's compute driver lists renderD{gpu.minor} ({gpu.address}), which is not there; left out"
            )
            continue
        grouped.setdefault(gpu.card(), []).append(gpu)
    if grouped and not in_dev(root, "/dev/kfd"):
        warnings.append("AMD's compute driver lists GPUs, but there is no /dev/kfd; left out")
        return ()
    cards = [_card(gpus, by_minor) for gpus in grouped.values()]
    return tuple(sorted(cards, key=lambda card: (address_key(card.identity.address), card.nodes[0].minor)))


def _card(gpus: list[_Gpu], by_minor: dict[int, RenderNode]) -> ComputeCard:
    gpus = sorted(gpus, key=lambda gpu: (gpu.location, gpu.minor))
    nodes = tuple(by_minor[minor] for minor in sorted({gpu.minor for gpu in gpus}))
    # The first partition's render node hangs off the PCI device, the others off platform devices. What
    # the device says about itself counts for more than KFD, which may leave out the domain.
    identity = next((node.identity for node in nodes if node.identity.address), None)
    memory = [gpu.memory for gpu in gpus if gpu.memory is not None]
    return ComputeCard(
        identity or PciIdentity(gpus[0].address, _AMD, None),
        nodes,
        len(gpus),
        sum(memory) if memory else None,
    )


def _gpus(directory: Path, warnings: list[str]) -> Iterator[_Gpu]:
    for name in sorted(listing(directory), key=lambda name: (len(name), name)):
        if not _NODE_NAME.fullmatch(name):
            continue
        properties = _properties(directory / name)
        if properties is None:
            warnings.append(f"node {name} of AMD's compute topology cannot be read; left out")
        elif properties.get("simd_count", 0) > 0 and properties.get("drm_render_minor", 0) > 0:
            yield _Gpu(
                properties.get("domain", 0),
                properties.get("location_id", 0),
                properties.get("unique_id", 0),
                properties["drm_render_minor"],
                _memory(directory / name),
            )


def _properties(node: Path) -> dict[str, int] | None:
    text = read_text(node / "properties")
    if text is None:
        return None
    matches = (_PROPERTY.fullmatch(line.strip()) for line in text.splitlines())
    return {match[1]: int(match[2]) for match in matches if match}


def _memory(node: Path) -> int | None:
    """The size of the node's memory banks in bytes, but for those that are the system's memory."""
    sizes = []
    banks = node / "mem_banks"
    for name in listing(banks):
        bank = _properties(banks / name) or {}
        if bank.get("heap_type", 1) != _SYSTEM_MEMORY and "size_in_bytes" in bank:
            sizes.append(bank["size_in_bytes"])
    return sum(sizes) if sizes else None

"""When two device names are the same hardware, so that an exclusive grant of one keeps others off both.

* Names that inject the same GPU node are the same device: ``0``, its UUID, ``all``, the card's render node.
* Control nodes, which every card of a vendor shares, do not count, unless a device has nothing else.
* Two MIG devices of one card share the card's nodes by necessity: between them only the capability nodes
  count. A MIG device and the whole card do overlap.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: What makes two nodes the same one: the path on the host, or the device's type, major and minor number.
Identity = str | tuple[str, int, int]

_CONTROL = re.compile(r".*/dev/(nvidiactl|nvidia-uvm.*|nvidia-modeset|kfd)")
_CAPABILITY = re.compile(r".*/dev/nvidia-caps/[^/]+")
_NVIDIA_CARD = re.compile(r".*/dev/nvidia[0-9]+")


@dataclass(frozen=True)
class Footprint:
    """The hardware that one device name reaches: identities of nodes, each with the path to show for it."""

    #: Nodes of cards, with those that the kernel has for the same card.
    gpu: Mapping[Identity, str] = field(default_factory=dict)
    #: The capability nodes of MIG devices.
    capabilities: Mapping[Identity, str] = field(default_factory=dict)
    #: Nodes that every card of a vendor shares.
    control: Mapping[Identity, str] = field(default_factory=dict)
    #: The paths that the specs themselves name.
    named: frozenset[str] = frozenset()
    #: The PCI addresses of the cards, as far as they are known.
    cards: frozenset[str] = frozenset()
    #: Whether it is a part of exactly one NVIDIA card.
    is_mig: bool = False

    @property
    def own(self) -> Mapping[Identity, str]:
        """The nodes that are not every card's."""
        return {**self.gpu, **self.capabilities}

    @property
    def everything(self) -> Mapping[Identity, str]:
        """All nodes."""
        return {**self.own, **self.control}


@dataclass(frozen=True)
class Node:
    """A device node that a name injects: its path on the host and everything that identifies it."""

    path: str
    identities: frozenset[Identity]
    #: Other nodes of the kernel for the same card, by path.
    siblings: tuple[str, ...] = ()
    card: str = ""


def footprint(nodes: tuple[Node, ...]) -> Footprint:
    """The hardware that `nodes` reach together."""
    gpu: dict[Identity, str] = {}
    capabilities: dict[Identity, str] = {}
    control: dict[Identity, str] = {}
    for node in nodes:
        kind = control if _is(_CONTROL, node) else capabilities if _is(_CAPABILITY, node) else gpu
        kind.update(dict.fromkeys(node.identities, node.path))
        kind.update({sibling: sibling for sibling in node.siblings})
    cards = {path for node in nodes for path in node.identities if _is_nvidia_card(path)}
    return Footprint(
        gpu,
        capabilities,
        control,
        frozenset(node.path for node in nodes),
        frozenset(node.card for node in nodes if node.card),
        is_mig=bool(capabilities) and len(cards) == 1,
    )


def shared_node(one: Footprint, other: Footprint) -> str:
    """The path of a node that makes both the same hardware; empty when they are not."""
    if one.is_mig and other.is_mig:
        mine, theirs = one.capabilities, other.capabilities
    elif one.own and other.own:
        mine, theirs = one.own, other.own
    else:
        mine, theirs = one.everything, other.everything
    shared = [path for identity, path in mine.items() if identity in theirs]
    # The path that a person finds in the specs, rather than one that only the kernel relates to them.
    return min(shared, key=lambda path: (-(path in one.named) - (path in other.named), path), default="")


def _is(pattern: re.Pattern[str], node: Node) -> bool:
    return any(isinstance(path, str) and pattern.fullmatch(path) for path in node.identities)


def _is_nvidia_card(identity: Identity) -> bool:
    return isinstance(identity, str) and _NVIDIA_CARD.fullmatch(identity) is not None

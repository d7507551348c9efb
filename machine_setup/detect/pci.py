"""PCI addresses as the vendors' tools write them, and product names from the machine's own pci.ids."""

import re
from collections.abc import Iterable
from pathlib import Path

from spec.sysfs import PciIdentity

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII)
# Debian, then Fedora and SUSE, then what `update-pciids` leaves.
_PCI_IDS = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "var/lib/pciutils/pci.ids")


def normal_address(text: str) -> str | None:
    """A PCI address as sysfs writes it (``0000:01:00.0``), or None when `text` is none.

    nvidia-smi writes the domain with 8 digits and in capitals; VMD has real domains above ffff.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}"


def product_names(root: Path, cards: Iterable[PciIdentity]) -> dict[PciIdentity, str]:
    """What the machine's pci.ids calls each of `cards`, for those that it knows."""
    cards = tuple(cards)
    wanted = frozenset(map(_ids, cards))
    path = next((root / name for name in _PCI_IDS if (root / name).is_file()), None)
    if path is None or not wanted:
        return {}
    names, vendor = {}, ""
    # A vendor's line starts at the margin, its products' lines with one tab, subsystems' with two.
    for line in path.read_text(errors="replace").splitlines():
        if line[:1] not in {"\t", "#", ""}:
            vendor = line[:4]
        elif line.startswith("\t") and (vendor, line[1:5]) in wanted:
            names[(vendor, line[1:5])] = line[5:].strip()
    return {card: names[ids] for card in cards if (ids := _ids(card)) in names}


def _ids(card: PciIdentity) -> tuple[str, str]:
    return f"{card.vendor or 0:04x}", f"{card.product or 0:04x}"

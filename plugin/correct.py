"""Correcting a Compose file by what the gate says of it: what is refused goes, a granted name takes its
place.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass

from plugin.compose import Document, Key
from plugin.denial import Denial

#: A correction can uncover the next problem; a file with more than these is not worth it.
_MAX_ROUNDS = 30

# What was asked for was a GPU, or may have been: a device by its CDI name does the same.
_MEANT_A_DEVICE = frozenset({"device-request-form", "raw-device", "runtime", "device-cgroup-rule"})


@dataclass(frozen=True)
class Fault:
    """A denial and the key of the file that it comes from."""

    denial: Denial
    key: Key


def corrected(
    document: Document, device: str, faults: Callable[[Document], Iterable[Fault]]
) -> Document | None:
    """`document` without its faults, as `faults` finds them; None where they cannot be corrected.

    `device` is the CDI name that takes the place of other ways to a GPU; empty where there is none.
    """
    document = deepcopy(document)
    for _ in range(_MAX_ROUNDS):
        fault = next(iter(faults(document)), None)
        if fault is None:
            return document
        if not _correct(document, fault, device):
            return None
    return None


def _correct(document: Document, fault: Fault, device: str) -> bool:
    rule, key = fault.denial.rule, fault.key
    if len(key) < 2 or rule == "build-device" or not _remove(document, key):
        return False
    if rule in _MEANT_A_DEVICE and device and key[0] == "services":
        service = _at(document, key[:2])
        devices = service.setdefault("devices", []) if isinstance(service, dict) else None
        if isinstance(devices, list) and device not in map(_name, devices):
            devices.append(device)
    return True


def _name(device: object) -> object:
    return device.get("source") if isinstance(device, dict) else device


def _at(document: object, key: Key) -> object:
    for part in key:
        try:
            document = document[part]  # type: ignore[index]  # what is no container raises
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _remove(document: Document, key: Key) -> bool:
    """Remove what is at `key`, and what is left empty above it, up to the service, volume or network."""
    parent = _at(document, key[:-1])
    try:
        del parent[key[-1]]  # type: ignore[attr-defined]  # what has no such key raises
    except (KeyError, IndexError, TypeError):
        return False
    if not parent and len(key) > 3:
        _remove(document, key[:-1])
    return True

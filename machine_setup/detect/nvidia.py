"""NVIDIA's kernel driver, as /proc and /sys show it."""

import re
from dataclasses import dataclass
from pathlib import Path

from machine_setup.detect.pci import normal_address
from spec.sysfs import read_text

# Both wordings of /proc/driver/nvidia/version:
#   NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
#   NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build  (...)
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class ProcGpu:
    """A GPU that the driver has. `minor` is the N of /dev/nvidiaN, `uuid` None until something opens it."""

    address: str
    name: str | None
    uuid: str | None
    minor: int | None


def driver_is_loaded(root: Path) -> bool:
    """Whether NVIDIA's kernel module is loaded, however well it works."""
    return (root / "proc/driver/nvidia/version").exists() or (root / "sys/module/nvidia").exists()


def driver_version(root: Path) -> str | None:
    """The kernel module's version, or None when the module is not loaded."""
    if version := read_text(root / "sys/module/nvidia/version"):
        return version
    match = _VERSION.search(read_text(root / "proc/driver/nvidia/version") or "")
    return match[1] if match else None


def proc_gpus(root: Path) -> dict[str, ProcGpu]:
    """The GPUs in /proc/driver/nvidia/gpus, by PCI address."""
    gpus = {}
    for information in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        fields = _fields(read_text(information) or "")
        address = normal_address(fields.get("Bus Location", "")) or normal_address(information.parent.name)
        if address is None:
            continue
        uuid, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
        gpus[address] = ProcGpu(
            address,
            fields.get("Model") or None,
            # "GPU-????????-…" until something has opened the card.
            uuid if _UUID.fullmatch(uuid) else None,
            int(minor) if minor.isdecimal() else None,
        )
    return gpus


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, separator, value in pairs if separator}

"""Whether the machine is Linux on its own (or in a virtual machine), or Windows' subsystem for it."""

from enum import StrEnum
from pathlib import Path

from spec.sysfs import read_text

WSL_LIBRARIES = Path("usr/lib/wsl/lib")


class Platform(StrEnum):
    """The two that differ for GPUs: on WSL there is no kernel driver but one paravirtual node, /dev/dxg."""

    NATIVE = "native"
    WSL = "wsl"


def platform(root: Path) -> Platform:
    """The platform below `root`: WSL when its kernel says so and it passes GPUs through.

    A container on WSL has the same kernel; without /dev/dxg no GPU of Windows can be reached.
    """
    release = read_text(root / "proc/sys/kernel/osrelease") or ""
    return Platform.WSL if "microsoft" in release.lower() and (root / "dev/dxg").exists() else Platform.NATIVE


def has_wsl_nvidia(root: Path) -> bool:
    """Whether Windows passes NVIDIA's user-mode driver in; /dev/dxg alone is there for every vendor."""
    libraries = root / WSL_LIBRARIES
    return (libraries / "nvidia-smi").exists() or any(libraries.glob("libcuda.so*"))

"""What keeps a card from being used, as "what. Next: what to do"."""

from pathlib import Path

from machine_setup.detect import nvidia
from machine_setup.detect.gpu import Gpu
from spec.sysfs import in_dev

_INSTALL = {
    "nvidia": "install NVIDIA's driver for the running kernel",
    "amd": "load amdgpu (and its firmware package), or look for amdgpu lines in dmesg",
    "intel": "load xe or i915 (and its firmware package), or look for their lines in dmesg",
}


def card_fault(gpu: Gpu, root: Path, *, set_aside: bool, minor: int | None, computes: bool) -> list[str]:
    """What is wrong with the card `gpu`; nothing for one that works.

    `set_aside`: its driver hands it to virtual machines. `minor` is the N of /dev/nvidiaN, `computes` says
    whether AMD's compute driver lists it.
    """
    what = f"The card at {gpu.address} ({gpu.name})"
    if set_aside:
        return [
            f"{what} is set aside for virtual machines ({gpu.driver}), and nothing here can use it. "
            "Next: nothing, unless this machine is to use it; then bind its own driver"
        ]
    if gpu.driver is None:
        return _without_driver(gpu, what, root)
    if gpu.vendor == "nvidia":
        return _nvidia_fault(gpu, what, root, minor)
    if gpu.render_node is None:
        return [
            f"{what} has the driver {gpu.driver}, which made no render node: it is broken. Next: {_hint(gpu)}"
        ]
    if gpu.vendor == "amd" and not computes:
        return [
            f"{what} cannot compute: AMD's compute driver does not list it, so it is a rediacc.io/dri device "
            "alone. Next: nothing for graphics and video; ROCm needs a newer card or kernel"
        ]
    return []


def _without_driver(gpu: Gpu, what: str, root: Path) -> list[str]:
    if gpu.vendor == "nvidia" and nvidia.driver_is_loaded(root):
        return [
            f"{what} is left alone by NVIDIA's driver, which is loaded: it may be too new or too old for it. "
            "Next: look for NVRM lines in dmesg, and install the driver that NVIDIA names for this card"
        ]
    return [f"{what} has no driver. Next: {_hint(gpu)}, then run renet setup again"]


def _nvidia_fault(gpu: Gpu, what: str, root: Path, minor: int | None) -> list[str]:
    if gpu.driver != "nvidia":
        return [
            f"{what} is driven by {gpu.driver}, with which containers cannot use CUDA. "
            f"Next: {_INSTALL['nvidia']} and reboot"
        ]
    if minor is None:
        return [
            f"{what} has NVIDIA's driver, which could not start it: it is loaded but broken. "
            "Next: look for NVRM lines in dmesg, then reboot or reinstall the driver"
        ]
    if not in_dev(root, f"/dev/nvidia{minor}"):
        return [
            f"{what} has no node /dev/nvidia{minor}, so no container can get it. "
            f"Next: nvidia-modprobe --create-nvidia-device-file={minor}; nvidia-persistenced keeps it there"
        ]
    return []


def _hint(gpu: Gpu) -> str:
    return _INSTALL.get(gpu.vendor, "install its driver, or look for its lines in dmesg")

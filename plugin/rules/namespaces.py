"""Namespaces: a container's are its own or another container's, never the host's."""

from collections.abc import Iterator

from plugin.context import Context
from plugin.denial import Denial
from plugin.rules.relax import ALWAYS, relaxable

_FIX = "Leave it out; a GPU needs no more than --device with a granted CDI name"


def pid(mode: str, _context: Context) -> Iterator[Denial]:
    """The host's processes."""
    if not mode.startswith("container:"):
        yield Denial("host-pid", f"--pid {mode[:100]} is refused on this machine", _FIX, "HostConfig.PidMode")


def userns(mode: str, _context: Context) -> Iterator[Denial]:
    """The host's user namespace."""
    yield Denial(
        "host-userns", f"--userns {mode[:100]} is refused on this machine", _FIX, "HostConfig.UsernsMode"
    )


def cgroupns(mode: str, _context: Context) -> Iterator[Denial]:
    """The host's cgroup namespace."""
    if mode != "private":
        message = f"--cgroupns {mode[:100]} is refused on this machine"
        yield Denial("host-cgroupns", message, _FIX, "HostConfig.CgroupnsMode")


def ipc(mode: str, context: Context) -> Iterator[Denial]:
    """The host's shared memory."""
    if mode not in {"none", "private", "shareable"} and not mode.startswith("container:"):
        message = f"--ipc {mode[:100]} is refused on this machine"
        yield relaxable("host-ipc", message, ALWAYS, "HostConfig.IpcMode", context)


def uts(mode: str, context: Context) -> Iterator[Denial]:
    """The host's name."""
    message = f"--uts {mode[:100]} is refused on this machine"
    yield relaxable("host-uts", message, ALWAYS, "HostConfig.UTSMode", context)

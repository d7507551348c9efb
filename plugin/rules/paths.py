"""Directories of the host: what a container may see of them."""

import posixpath
import re
from collections.abc import Iterator

from plugin.context import Closed, Context, Place
from plugin.denial import Denial
from plugin.rules.devices import cdi_form
from plugin.rules.relax import relaxable, within

HARDWARE = ("/dev", "/proc", "/sys")

# Whoever writes there gives themselves a device, another daemon or root on the host. Places of one machine,
# such as data roots and the gate's own program, come with the context.
CONTROL = (
    "/etc/cdi",
    "/etc/containerd",
    "/etc/containers",
    "/etc/crio",
    "/etc/docker",
    "/etc/nvidia-container-runtime",
    "/etc/nvidia-container-toolkit",
    "/etc/rediacc",
    "/run/cdi",
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/docker",
    "/run/docker.sock",
    "/run/nvidia-container-devices",
    "/run/podman",
    "/run/rediacc",
    "/run/systemd",
    "/usr/lib/docker",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/rediacc",
    "/var/log/rediacc",
)
CONTROL_SOCKETS = frozenset({"containerd.sock", "crio.sock", "docker.sock", "podman.sock", "buildkitd.sock"})

ORDINARY = (
    "/backup",
    "/data",
    "/datasets",
    "/export",
    "/home",
    "/media",
    "/mnt",
    "/models",
    "/opt",
    "/pool",
    "/projects",
    "/scratch",
    "/srv",
    "/storage",
    "/tank",
    "/tmp",  # noqa: S108  # a place of the host that containers may use
    "/var/tmp",  # noqa: S108
    "/var/www",
    "/workspace",
)
# Read-only, and by exactly these names.
READ_ONLY = frozenset(
    {
        "/etc/ca-certificates",
        "/etc/ca-certificates.conf",
        "/etc/group",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/localtime",
        "/etc/machine-id",
        "/etc/nsswitch.conf",
        "/etc/os-release",
        "/etc/passwd",
        "/etc/pki/ca-trust",
        "/etc/pki/tls/certs",
        "/etc/ssl/certs",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/timezone",
        "/usr/lib/os-release",
        "/usr/local/share/ca-certificates",
        "/usr/share/ca-certificates",
        "/usr/share/zoneinfo",
    }
)
# Where the links of the files above may lead.
_BEHIND_READ_ONLY = (
    "/etc/pki/ca-trust/extracted",
    "/usr/lib/os-release",
    "/usr/share/zoneinfo",
    "/usr/share/ca-certificates",
)

_HARDWARE = Closed.of(HARDWARE)
_CONTROL = Closed.of((*CONTROL, *(f"/var{path}" for path in CONTROL if path.startswith("/run/"))))

_PLAIN = re.compile(r"[^\x00-\x1f\x7f]*")


def is_plain(path: str) -> bool:
    """Whether `path` is absolute and free of control characters."""
    return path.startswith("/") and _PLAIN.fullmatch(path) is not None


def clean(path: str) -> str:
    """`path` as Go's path.Clean gives it: posixpath keeps a second leading slash."""
    return posixpath.normpath("/" + path.lstrip("/"))


def is_hardware(path: str) -> bool:
    """Whether the clean `path` is, holds or lies in a directory of the kernel's."""
    return _HARDWARE.touches(path)


def judge_path(path: str, place: Place, read_only: bool, field: str, context: Context) -> Iterator[Denial]:
    """A directory or file of the host that a container shall see.

    `path` is the clean path that the request names, `place` where it leads. Both are judged: the link can be
    turned to another place later, the place is what is mounted today.
    """
    if place.path == context.places.own_socket:
        return
    shown = path[:200]
    paths = {path: None, _without_alias(path): None, place.path: None}
    if any(map(is_hardware, paths)) or place.is_device or place.kernel_mounts:
        yield Denial(
            "bind-hardware",
            f"{shown} is, holds or leads to hardware or the kernel, and is not mounted on this machine",
            f"Mount only the directories that hold your data; for a GPU use {cdi_form(context)}",
            field,
        )
    elif any(_is_control(known, context) for known in paths):
        yield Denial(
            "bind-control",
            f"{shown} is, holds or leads to what controls the engine or the gate: it is not mounted",
            "Mount only the directories that hold your data",
            field,
        )
    elif not (read_only and _is_everyday(path, place.path)):
        for known in paths:
            if not _is_ordinary(known, context):
                message = f"{shown} is part of this machine's system and is not mounted"
                if known in {path, place.path}:
                    yield relaxable("bind-system", message, known, field, context)


def _without_alias(path: str) -> str:
    return path.removeprefix("/var") if within(path, "/var/run") else path


def _is_control(path: str, context: Context) -> bool:
    places = context.places
    if posixpath.basename(path) in CONTROL_SOCKETS:
        return True
    # The repository's own files lie in a closed directory; its data root among them is closed all the same.
    own = places.own_files if places.own_files and within(path, places.own_files) else ""
    return any(closed.touches(path, own) for closed in (_CONTROL, places.machine, places.daemon))


def _is_everyday(path: str, leads_to: str) -> bool:
    return path in READ_ONLY and (
        leads_to in READ_ONLY or any(within(leads_to, root) for root in _BEHIND_READ_ONLY)
    )


def _is_ordinary(path: str, context: Context) -> bool:
    own = context.places.own_files
    return any(within(path, root) for root in ORDINARY) or (own != "" and within(path, own))

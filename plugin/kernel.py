"""Asking the kernel where a path of the host leads."""

import os
import re
import stat
from pathlib import Path

from plugin.context import Answer, Place, Unanswered
from plugin.rules.relax import within

# Each shows the kernel or a device wherever it is mounted, say in a chroot below /srv.
_KERNEL_FILE_SYSTEMS = (
    rb"proc|sysfs|devtmpfs|devpts|cgroup2?|debugfs|tracefs|securityfs|bpf|configfs|efivarfs|pstore|binfmt_misc"
    rb"|selinuxfs|nsfs|fusectl"
)
# proc_pid_mountinfo(5): the mount point is the fifth field, the type of file system follows " - ".
_MOUNT = re.compile(rb"^\S+ \S+ \S+ \S+ (\S+) .*? - (?:" + _KERNEL_FILE_SYSTEMS + rb") ", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def place(path: str, mountinfo: Path = Path("/proc/self/mountinfo")) -> Answer:
    """Where `path` leads: without symlinks, with what of the kernel is mounted there, above or below."""
    try:
        real = os.path.realpath(path)
        return Place(real, _kernel_mounts(real, mountinfo), _is_device(real))
    except (OSError, ValueError) as error:
        return Unanswered(repr(error))


def has_unified_cgroups() -> bool:
    """Whether this machine has cgroup v2 alone, as cgroups(7) tells it."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _is_device(path: str) -> bool:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return False  # dockerd makes a directory of that name
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _kernel_mounts(path: str, mountinfo: Path) -> tuple[str, ...]:
    points = [os.fsdecode(_unescape(found)) for found in _MOUNT.findall(mountinfo.read_bytes())]
    return tuple(point for point in points if within(point, path) or within(path, point))


def _unescape(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), text)

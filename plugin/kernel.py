"""Asking the kernel where a path of the host leads."""

import errno
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


# What the kernel follows for one path (path_resolution(7)).
_MOST_LINKS = 40


def place(path: str, host: str = "/", mountinfo: Path = Path("/proc/self/mountinfo")) -> Answer:
    """Where `path` leads: without symlinks, with what of the kernel is mounted there, above or below.

    `host` is where the file system of the daemons is seen: elsewhere than at ``/`` when the gate runs in a
    container.
    """
    try:
        real = os.path.realpath(path) if host == "/" else _real_below(host, path)
        return Place(real, _kernel_mounts(real, host, mountinfo), _is_device(_seen(host, real)))
    except (OSError, ValueError) as error:
        return Unanswered(repr(error))


def _seen(host: str, path: str) -> str:
    return path if host == "/" else host + path


def _real_below(host: str, path: str) -> str:
    """`path` without symlinks, each followed as after chroot(2) to `host`."""
    real, ahead, links = "", path.split("/")[::-1], 0
    while ahead:
        name = ahead.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        step = f"{real}/{name}"
        try:
            target = str(Path(host + step).readlink())
        except OSError as error:
            # No link (EINVAL), or nothing there: dockerd makes a directory of that name.
            if error.errno not in {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
                raise
            real = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            real = ""
        ahead += target.split("/")[::-1]
    return real or "/"


def has_unified_cgroups() -> bool:
    """Whether this machine has cgroup v2 alone, as cgroups(7) tells it."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _is_device(path: str) -> bool:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return False  # dockerd makes a directory of that name
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _kernel_mounts(path: str, host: str, mountinfo: Path) -> tuple[str, ...]:
    seen = [os.fsdecode(_unescape(found)) for found in _MOUNT.findall(mountinfo.read_bytes())]
    points = [point.removeprefix(host.rstrip("/")) or "/" for point in seen if within(point, host)]
    return tuple(point for point in points if within(point, path) or within(path, point))


def _unescape(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), text)

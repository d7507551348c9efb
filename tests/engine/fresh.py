"""A Debian with nothing on it, as a new container has it: for what a newcomer types in a clone.

The cache keeps the bare roots. What a trial changes is above them, and goes away with it.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engine.mirror import debian_source
from tests.engine.unpack import cache_dir, locked
from tests.lab.build import PROJECT
from tests.lab.package import UNWANTED

# Runs in mount and process namespaces of its own: nothing that is mounted or started here survives it.
_ENTER = """\
directory=$1 base=$2 cache=$3 command=$4
shift 4
root=$directory/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$directory/upper,workdir=$directory/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"
mount --rbind /dev/pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for node in null zero full random urandom tty fuse kmsg loop-control; do
  [ ! -e /dev/$node ] || cp --archive /dev/$node "$root/dev"
done
mkdir -p "$root/root/.cache/rediacc-gpu-gate"
mount --bind "$cache" "$root/root/.cache/rediacc-gpu-gate"
for path in "$@"; do
  mkdir -p "$root$path"
  mount --bind -o ro "$path" "$root$path"
done
# No chroot: whoever enters another process's mount namespace leaves it (setns(2)), for the host's files.
cd "$root"
mkdir host
pivot_root . host
exec sh -euc 'umount --lazy /host; rmdir /host; cd /root/clone; exec sh -euc "$1"' sh "$command"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What this machine's apt and pip need to reach their mirrors. The system's packages write in some of these:
# the new system has copies.
_COPIED = (
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/usr/local/share/ca-certificates",
)
_OF_PIP = re.compile(r"(PIP|SSL|REQUESTS)_\w+|https?_proxy|no_proxy", re.IGNORECASE)


@dataclass(frozen=True)
class Fresh:
    """A bare Debian with a clone of this repository in /root/clone."""

    base: Path
    directory: Path

    def run(self, command: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Type `command` in the clone, as root, with a new login's environment."""
        pip = {name: value for name, value in os.environ.items() if _OF_PIP.fullmatch(name)}
        # Directories of wheels; they are only read.
        shown = {path for path in pip.values() if Path(path).is_dir() and not path.startswith("/etc/")}
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", _ENTER, "sh",
             str(self.directory), str(self.base), str(cache_dir()), command, *sorted(shown)],
            check=False,
            env={"HOME": "/root", "PATH": _PATH, **pip},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )  # fmt: skip


@contextmanager
def fresh(suite: str) -> Iterator[Fresh]:
    """A bare Debian `suite`, removed on exit."""
    base = _base(suite)
    with tempfile.TemporaryDirectory(prefix="gate-fresh-") as name, _able_to_hold_changes(Path(name)):
        directory = Path(name)
        for part in ("root", "upper/root", "upper/etc/apt/apt.conf.d", "work"):
            (directory / part).mkdir(parents=True)
        for path in map(Path, _COPIED):
            copy = directory / "upper" / path.relative_to("/")
            if path.is_dir():
                shutil.copytree(path, copy, dirs_exist_ok=True)
            elif path.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        (directory / "upper/etc/apt/apt.conf.d/99machine").write_text(_apt_settings())
        shutil.copytree(PROJECT, directory / "upper/root/clone", ignore=UNWANTED)
        yield Fresh(base, directory)


@contextmanager
def _able_to_hold_changes(directory: Path) -> Iterator[None]:
    """An overlay's changes cannot lie on an overlay, which a container's /tmp is: there memory has them."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], check=True, capture_output=True, text=True)
    if kind.stdout != "overlayfs\n":
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def _base(suite: str) -> Path:
    root = cache_dir() / f"fresh-{suite}"
    with locked(root.with_suffix(".lock")):
        if not root.exists():
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="build-") as scratch:
                made = Path(scratch) / "root"
                source = debian_source()
                subprocess.run(
                    ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--keyring={source.keyring}",
                     suite, str(made), source.uri],
                    check=True, stdout=subprocess.DEVNULL,
                )  # fmt: skip
                made.rename(root)
    return root


def _apt_settings() -> str:
    """How this machine's apt reaches its mirror: proxies, retries, and what it believes of the time."""
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    kept = re.compile(r"Acquire::(https?|Retries|Check-Valid-Until|Check-Date)\b")
    return "".join(f"{line}\n" for line in dump.splitlines() if kept.match(line))

"""Device nodes that a daemon under test finds at the paths of GPUs' nodes, and nobody else does."""

import subprocess
from collections.abc import Mapping

from tests.engine.daemon import Daemon

# In the daemon's mount namespace: a /dev of its own, with what runc needs, and the nodes "path major minor".
MAKE = """\
new=$1 && shift && mkdir "$new"
mount -t tmpfs -o mode=755 dev "$new"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/fuse /dev/kmsg "$new"
mkdir "$new/pts" "$new/shm" "$new/mqueue"
mount --bind /dev/pts "$new/pts"
ln -s pts/ptmx "$new/ptmx"
while [ $# -gt 0 ]; do
  mkdir -p "$new/$(dirname "$1")"
  mknod -m 660 "$new/$1" c "$2" "$3"
  shift 3
done
mount --move "$new" /dev
"""


def make_nodes(daemon: Daemon, nodes: Mapping[str, tuple[int, int]]) -> None:
    """Give the running `daemon` a /dev with these character devices (a path below /dev -> major, minor)."""
    words = [str(word) for path, numbers in nodes.items() for word in (path, *numbers)]
    enter = ["nsenter", "--mount", "--root", f"--target={daemon.pid}", "sh", "-euc", MAKE, "sh"]
    subprocess.run([*enter, str(daemon.directory / "dev"), *words], check=True)

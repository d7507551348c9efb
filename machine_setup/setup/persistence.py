"""The step that sees to it that repositories' daemons see nvidia-persistenced's socket.

nvidia-ctk writes the socket into the spec when it is there, and a container whose spec mounts what its
daemon does not see does not start. A managed daemon sees the machine's /run. An adopted one may not, and
one whose mount namespace holds the directory of a nvidia-persistenced that was restarted sees a dead one.
"""

from pathlib import Path

from grants_cli.register import Repository
from grants_cli.store import read_register
from machine_setup.repository.daemon import find
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan

SOCKET = "run/nvidia-persistenced/socket"


class PersistenceStep:
    """Compare what the machine has with what each running daemon sees."""

    name = "nvidia-persistenced"

    def plan(self, context: Context) -> Plan:
        """Warnings only: a daemon has to be restarted by whoever knows what runs in it."""
        if not context.wants_nvidia:
            return Plan(found="not needed")
        socket = context.layout.root / SOCKET
        if not socket.exists():
            return Plan(found="no socket", warnings=_missing(context))
        blind = [
            repository
            for repository in read_register(context.layout).repositories
            if (pid := find(repository)) is not None and not sees(pid, socket)
        ]
        return Plan(
            found=f"hidden from {len(blind)} daemons" if blind else "every running daemon sees it",
            warnings=[_hidden(repository, socket) for repository in blind],
        )


def sees(pid: int, path: Path) -> bool:
    """Whether the process `pid` finds at `path` the very file that we find there."""
    try:
        return Path(f"/proc/{pid}/root{path}").samefile(path)
    except OSError:
        return False


def _missing(context: Context) -> list[str]:
    spec = context.layout.nvidia_spec
    if not spec.exists() or f"/{SOCKET}".encode() not in spec.read_bytes():
        return []
    return [
        f"{spec} mounts /{SOCKET}, which is not there: containers with it do not start. "
        "Next: systemctl start nvidia-persistenced, or run renet setup once nvidia-ctk works"
    ]


def _hidden(repository: Repository, socket: Path) -> str:
    way = (
        f"renet repo stop {repository.ref} and start it again"
        if repository.managed
        else "restart it without PrivateMounts= or a file system of its own over /run"
    )
    return (
        f"The daemon of {repository.ref} does not see {socket}: its GPU containers do not start. Next: {way}"
    )

"""What a repository's daemon sees of the machine: one plan, for systemd and for the foreground.

The daemon runs in a mount namespace of its own. In it, /etc/cdi is the view of the granted devices, and what
belongs to other repositories and to the gate is not there: a container that gets past the gate with a bind
finds none of it either. /run itself stays the machine's, so that nvidia-persistenced's socket is visible
after that service has made its directory anew; a bind of the directory would be stale by then.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grants_cli.register import Repository
from spec.layout import Layout


@dataclass(frozen=True)
class Hidden:
    """A directory that is empty to the daemon, but for what is bound into it."""

    path: Path


@dataclass(frozen=True)
class Closed:
    """A directory that the daemon cannot look into, where the machine has it."""

    path: Path


@dataclass(frozen=True)
class Bound:
    """A file or directory that the daemon sees at `target`."""

    source: Path
    target: Path
    read_only: bool = False


@dataclass(frozen=True)
class ReadOnly:
    """A directory that the daemon sees and cannot change; nor can a container that has it mounted."""

    path: Path


Step = Hidden | Closed | Bound | ReadOnly

# Not below the layout's root: dockerd, containerd and runc look for these at fixed places.
_CDI = Path("/etc/cdi")
_CONTAINERD = Path("/run/containerd")
_DOCKER = Path("/run/docker")
_PLUGINS = _DOCKER / "plugins"
_OTHERS = tuple(map(Path, ("/run/cdi", "/run/podman", "/run/crio", "/var/lib/docker", "/var/lib/containerd")))


# A link that a tenant turns after the gate has looked, and a restart policy follows without asking, leads to
# the system at worst as a reader.
_SYSTEM = tuple(map(Path, ("/boot", "/etc", "/root", "/usr", "/var/spool")))


def plan(layout: Layout, repository: Repository) -> tuple[Step, ...]:
    """The steps for the daemon of `repository`: what is hidden, then what is bound into it."""
    home = layout.repository_dir(repository.guid)
    exec_root = layout.exec_root(repository.guid)
    configuration = layout.daemon_json(repository.slug).parent
    hidden = (home.parent, layout.register.parent, layout.docker_socket(repository.slug).parent, _DOCKER)
    return (
        *(ReadOnly(path) for path in _SYSTEM),
        *(Hidden(path) for path in hidden),
        *(Closed(path) for path in (layout.gate_log.parent, *_OTHERS)),
        Bound(home, home),
        Bound(exec_root, exec_root),
        Bound(configuration, configuration, read_only=True),
        Bound(layout.plugin_dir, _PLUGINS, read_only=True),
        # containerd's shims meet their daemon in a directory of a fixed name: each repository has its own,
        # and dockerd, which finds no containerd of the machine there, starts one of its own.
        Bound(layout.shim_dir(repository.guid), _CONTAINERD),
        Bound(layout.view_dir(repository.slug), _CDI, read_only=True),
    )


#: What no daemon of a repository needs and no container may have; the unit names the same. A container that
#: gets past the gate as a privileged one still loads no module and reads no port.
DROPPED = ("sys_module", "sys_rawio", "sys_boot", "syslog", "perfmon", "mac_override")


def as_unit_settings(steps: Sequence[Step]) -> str:
    """The plan as lines for a unit's [Service] section."""
    return "".join(f"{_unit_line(step)}\n" for step in steps)


def _unit_line(step: Step) -> str:
    match step:
        case Hidden(path):
            return f"TemporaryFileSystem={path}:ro,mode=0755"
        case Closed(path):
            return f"InaccessiblePaths=-{path}"
        case ReadOnly(path):
            return f"ReadOnlyPaths=-{path}"
        case Bound(source, target, read_only):
            return f"{'BindReadOnlyPaths' if read_only else 'BindPaths'}={source}:{target}"


def as_script(steps: Sequence[Step], command: Sequence[str]) -> str:
    """The plan as a shell script that makes it so and becomes `command`.

    It belongs into a fresh mount namespace with slave propagation. Sources are put aside first, as systemd
    does, because what is hidden afterwards holds some of them.
    """
    bound = [step for step in steps if isinstance(step, Bound)]
    covered = [step for step in steps if isinstance(step, Hidden | Closed)]
    unchanging = [step.path for step in steps if isinstance(step, ReadOnly)]
    lines = ["set -e", "aside=$(mktemp -d)", 'mount -t tmpfs tmpfs "$aside"']
    for number, bind in enumerate(bound):
        lines.append(f'mkdir "$aside/{number}"')
        lines.append(f'mount --rbind {_quoted(bind.source)} "$aside/{number}"')
    lines += [_if_there(path, f"mount --rbind {_quoted(path)}") for path in unchanging]
    for cover in covered:
        mode = "0755" if isinstance(cover, Hidden) else "0000"
        lines.append(_if_there(cover.path, f"mount -t tmpfs -o mode={mode} tmpfs"))
    for number, bind in enumerate(bound):
        target = _quoted(bind.target)
        lines.append(f"mkdir -p {target}")
        lines.append(f'mount --rbind "$aside/{number}" {target}')
        if bind.read_only:
            lines.append(f"mount -o remount,bind,ro {target}")
    lines += [_if_there(cover.path, "mount -o remount,bind,ro") for cover in covered]
    lines += [_if_there(path, "mount -o remount,bind,ro") for path in unchanging]
    lines += ['umount -R -l "$aside"', 'rmdir "$aside"', f"exec {shlex.join(_without_dropped(command))}"]
    return "\n".join(lines) + "\n"


def _without_dropped(command: Sequence[str]) -> list[str]:
    dropped = ",".join(f"-{name}" for name in DROPPED)
    return ["setpriv", f"--bounding-set={dropped}", "--", *command]


def _if_there(path: Path, mount: str) -> str:
    return f"if [ -d {_quoted(path)} ]; then {mount} {_quoted(path)}; fi"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))

"""Adopting a daemon that exists: what must change in its configuration, and changing it."""

import os
from dataclasses import dataclass
from pathlib import Path

from grants_cli.register import Repository
from grants_cli.times import utc_now
from machine_setup.repository import daemon, daemon_json, engine, flags, leftovers
from machine_setup.repository.daemon_json import Deviation
from spec.errors import RefusedError
from spec.files import replace_file
from spec.layout import Layout

DEFAULT_JSON = Path("/etc/docker/daemon.json")
DEFAULT_DATA_ROOT = Path("/var/lib/docker")
DEFAULT_EXEC_ROOT = Path("/var/run/docker")


@dataclass(frozen=True)
class Places:
    """Where a daemon that exists keeps things, as far as it says so itself."""

    daemon_json: Path
    data_root: Path
    exec_root: Path


def places_of(socket: Path, config_file: Path | None = None) -> Places:
    """What the daemon at `socket` was started with, by flags and file, or dockerd's defaults."""
    given = running_flags(socket)
    path = config_file or Path(flags.last(given, "config-file") or DEFAULT_JSON)
    config = daemon_json.read(path)

    def place(name: str, default: Path) -> Path:
        named = flags.last(given, name) or config.get(name)
        return Path(str(named)) if named else default

    return Places(path, place("data-root", DEFAULT_DATA_ROOT), place("exec-root", DEFAULT_EXEC_ROOT))


def running_flags(socket: Path) -> flags.Flags:
    """The options of the dockerd that listens on `socket`; empty when none can be found."""
    pid = daemon.socket_owner(socket)
    if pid is None or not daemon.is_dockerd(pid):
        return {}
    return flags.parse([os.fsdecode(argument) for argument in leftovers.arguments(pid)])


@dataclass(frozen=True)
class Repair:
    """What became of a daemon.json."""

    deviations: tuple[Deviation, ...]
    #: The copy of the file as it was; `None` where nothing was changed, or where there was no file.
    backup: Path | None = None
    changed: bool = False


def check(layout: Layout, repository: Repository, version: engine.EngineVersion) -> tuple[Deviation, ...]:
    """What the repository's daemon.json must change; raises `UntrustedError` when it cannot be read."""
    config = daemon_json.read(repository.daemon_json)
    return daemon_json.deviations(config, _plugin(layout, repository), spec_dir(layout, repository), version)


def spec_dir(layout: Layout, repository: Repository) -> Path:
    """Where the repository's daemon reads its specs: in a namespace of its own the view is /etc/cdi."""
    return Path("/etc/cdi") if repository.managed else layout.view_dir(repository.slug)


def _plugin(layout: Layout, repository: Repository) -> str:
    return layout.plugin_socket(repository.slug).stem


def fix(layout: Layout, repository: Repository, dockerd: str) -> Repair:
    """Put the repository's daemon.json right and keep the old one beside it.

    The running daemon follows when it is restarted. Raises `RefusedError` when a flag of the running daemon
    would contradict the file, `CommandFailedError` when the engine does not accept it.
    """
    version = engine.installed_version(dockerd)
    path = repository.daemon_json
    config = daemon_json.read(path)
    fixed, wrong = daemon_json.repaired(
        config, _plugin(layout, repository), spec_dir(layout, repository), version
    )
    if not wrong:
        return Repair(())
    _check_flags(repository, fixed)
    content = daemon_json.encode(fixed)
    engine.validate(dockerd, content)
    backup = None
    if path.exists():
        backup = path.with_name(f"{path.name}.{utc_now():%Y%m%dT%H%M%SZ}.bak")
        replace_file(backup, path.read_bytes(), path.stat().st_mode & 0o777)
    replace_file(path, content)
    return Repair(wrong, backup, changed=True)


#: Options of the file whose flag has another name (moby cmd/dockerd, config.go).
_FLAG_OF = {"authorization-plugins": "authorization-plugin", "cdi-spec-dirs": "cdi-spec-dir", "hosts": "host"}


def _check_flags(repository: Repository, fixed: daemon_json.Document) -> None:
    """dockerd does not start when an option is in the file and on the command line."""
    given = running_flags(repository.socket)
    both = [flag for key in fixed if (flag := _FLAG_OF.get(key, key)) in given]
    if both:
        named = ", ".join(f"--{flag}" for flag in sorted(both))
        raise RefusedError(
            f"the daemon of {repository.ref} was started with {named}, "
            f"which {repository.daemon_json} would then name as well: dockerd refuses to start like that",
            "take the flag from its unit (systemctl edit --full docker), restart it, then repeat",
        )

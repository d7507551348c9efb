"""Adopting a daemon that exists: what must change in its file and on its command line, and changing it."""

import os
from dataclasses import dataclass
from pathlib import Path

from grants_cli.register import Repository
from grants_cli.times import utc_now
from machine_setup.repository import command_line, daemon, daemon_json, engine, flags, leftovers, units
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
    return flags.parse(_words(pid)) if pid is not None and daemon.is_dockerd(pid) else {}


def _words(pid: int | None) -> list[str]:
    return [os.fsdecode(word) for word in leftovers.arguments(pid)] if pid is not None else []


@dataclass(frozen=True)
class Repair:
    """What became of a daemon's configuration, or will."""

    deviations: tuple[Deviation, ...]
    #: The copy of the file as it was; `None` where nothing was changed, or where there was no file.
    backup: Path | None = None
    #: What takes flags from the daemon's unit; `None` where none is in the way.
    drop_in: Path | None = None
    changed: bool = False


@dataclass(frozen=True)
class _Plan:
    """What the file will say, and the flags that must go."""

    fixed: daemon_json.Document
    in_file: tuple[Deviation, ...]
    flags: tuple[tuple[str, str], ...]

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """Everything that must change."""
        why = "a flag counts beside daemon.json, and dockerd starts with no option in both"
        return self.in_file + tuple(
            Deviation(f"--{name}", value, "not given", why) for name, value in self.flags
        )


def check(layout: Layout, repository: Repository, version: engine.EngineVersion) -> tuple[Deviation, ...]:
    """What must change in the daemon's file and on its command line; raises `UntrustedError`."""
    return _plan(layout, repository, version).deviations


def _plan(layout: Layout, repository: Repository, version: engine.EngineVersion) -> _Plan:
    plugin = _plugin(layout, repository)
    given = {} if repository.managed else flags.parse(_words(daemon.find(repository)))
    config = daemon_json.read(repository.daemon_json)
    others = [name for name in given.get("authorization-plugin", ()) if name != plugin]
    if others:
        config["authorization-plugins"] = others
    fixed, wrong = daemon_json.repaired(config, plugin, spec_dir(layout, repository), version)
    features = fixed.get("features")
    if isinstance(features, dict):
        fixed["features"] = {**flags.features(given), **features}
    is_unwanted = command_line.unwanted(fixed)
    gone = [(name, value) for name, values in given.items() for value in values if is_unwanted(name, value)]
    return _Plan(fixed, wrong, tuple(gone))


def spec_dir(layout: Layout, repository: Repository) -> Path:
    """Where the repository's daemon reads its specs: in a namespace of its own the view is /etc/cdi."""
    return Path("/etc/cdi") if repository.managed else layout.view_dir(repository.slug)


def _plugin(layout: Layout, repository: Repository) -> str:
    return layout.plugin_socket(repository.slug).stem


def fix(layout: Layout, repository: Repository, dockerd: str) -> Repair:
    """Put the daemon's configuration right: its daemon.json, the old one kept, and its unit's flags.

    The running daemon follows when it is restarted. Raises `RefusedError` when a flag is in the way and no
    unit of systemd starts the daemon, `CommandFailedError` when the engine does not accept the file.
    """
    plan = _plan(layout, repository, engine.installed_version(dockerd))
    if not plan.deviations:
        return Repair(())
    unit = _unit(layout, repository, plan) if plan.flags else ""
    backup = None
    # The file first: with both, the daemon does not start; with neither, it would ask no gate.
    if plan.in_file:
        backup = _replace(repository.daemon_json, daemon_json.encode(plan.fixed), dockerd)
    drop_in = _take_flags(layout, repository, plan, unit) if unit else None
    return Repair(plan.deviations, backup, drop_in, changed=True)


def _replace(path: Path, content: bytes, dockerd: str) -> Path | None:
    engine.validate(dockerd, content)
    backup = None
    if path.exists():
        backup = path.with_name(f"{path.name}.{utc_now():%Y%m%dT%H%M%SZ}.bak")
        replace_file(backup, path.read_bytes(), path.stat().st_mode & 0o777)
    replace_file(path, content)
    return backup


def _unit(layout: Layout, repository: Repository, plan: _Plan) -> str:
    """The unit that must start the daemon without `plan.flags`; raises `RefusedError` where there is none."""
    unit = units.unit_of(layout, daemon.find(repository))
    if not unit:
        named = ", ".join(dict.fromkeys(command_line.spelled(*flag) for flag in plan.flags))
        raise RefusedError(
            f"the daemon of {repository.ref} was started with {named}, which must not stand beside what "
            f"{repository.daemon_json} has to say, and no unit of systemd starts it",
            f"stop it, renet repo repair {repository.ref}, then start it without",
        )
    return unit


def _take_flags(layout: Layout, repository: Repository, plan: _Plan, unit: str) -> Path:
    pid = daemon.find(repository)
    about = (
        f"Written by renet repo repair {repository.ref}: the daemon's command line without "
        f"{' '.join(command_line.spelled(*flag) for flag in plan.flags)}. Remove this file to have it back."
    )
    content = command_line.drop_in(
        about, Path(f"/proc/{pid}/exe").readlink(), _words(pid), lambda *flag: flag in plan.flags
    )
    return units.override(layout, unit, content)

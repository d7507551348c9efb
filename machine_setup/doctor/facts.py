"""What the checks judge: everything that is read from the machine and its daemons, once.

The checks themselves are functions of these facts, and touch nothing.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grants_cli.register import Repository
from machine_setup.doctor import listening
from machine_setup.repository import daemon, daemon_json, engine, flags, leftovers, units
from machine_setup.repository.adopt import spec_dir
from machine_setup.repository.engine import EngineVersion
from spec import registry, unix_http
from spec.errors import RediaccError, UnreachableError, UntrustedError
from spec.layout import Layout

#: Seconds. A daemon whose gate hangs does not answer at all; the others must not wait for it.
TIMEOUT = 3.0


@dataclass(frozen=True)
class SocketFacts:
    """A socket, or what is where one should be."""

    path: Path
    exists: bool = False
    mode: int = 0
    uid: int = 0
    gid: int = 0
    #: Who made it listen; `None` when nobody does.
    listener: int | None = None


@dataclass(frozen=True)
class DaemonFacts:
    """One repository's daemon as it is now."""

    repository: Repository
    plugin: str
    #: Where its specs should come from, by its own view of the files.
    spec_dir: Path
    view_dir: Path
    pid: int | None
    flags: flags.Flags
    config: Mapping[str, object]
    config_problem: str
    version: EngineVersion | None
    #: What the running daemon says of itself; `None` with `info_problem` when it does not.
    info: Mapping[str, object] | None
    info_problem: str
    #: Whether the running daemon really asks the gate; `None` where that cannot be tried.
    asks_gate: bool | None
    gate_problem: str
    api_socket: SocketFacts
    plugin_socket: SocketFacts
    tcp_ports: tuple[int, ...]
    #: The devices of the directories that the running daemon reads, by its own view of the files.
    seen: tuple[str, ...]
    #: Whether its /etc/cdi is the view; `None` where that is not to be seen.
    has_view: bool | None
    hidden_mounts: tuple[str, ...] = ()
    #: The unit of systemd that starts an adopted daemon; empty where none does.
    unit: str = ""

    @property
    def name(self) -> str:
        """The repository's name."""
        return str(self.repository.ref)

    @property
    def root(self) -> Path | None:
        """The running daemon's own view of the files."""
        return Path(f"/proc/{self.pid}/root") if self.pid else None


def gather(layout: Layout, repository: Repository, specs: registry.Registry) -> DaemonFacts:
    """The facts about the daemon of `repository`; takes no longer than a few `TIMEOUT`s. Never raises."""
    pid = daemon.find(repository)
    given = flags.parse([os.fsdecode(word) for word in leftovers.arguments(pid)]) if pid else {}
    config, config_problem = _config(repository.daemon_json)
    plugin_socket = layout.plugin_socket(repository.slug)
    gate_problem = _gate_problem(plugin_socket)
    info, info_problem = _info(repository, pid, gate_problem, config, given)
    root = Path(f"/proc/{pid}/root") if pid else None
    view = layout.view_dir(repository.slug)
    return DaemonFacts(
        repository=repository,
        plugin=plugin_socket.stem,
        spec_dir=spec_dir(layout, repository),
        view_dir=view,
        pid=pid,
        unit="" if repository.managed else units.unit_of(layout, pid),
        flags=given,
        config=config,
        config_problem=config_problem,
        version=_version(info, pid),
        info=info,
        info_problem=info_problem,
        asks_gate=_asks(repository.socket, plugin_socket.stem) if info else None,
        gate_problem=gate_problem,
        api_socket=socket_facts(repository.socket),
        plugin_socket=socket_facts(plugin_socket),
        tcp_ports=listening.tcp_ports(pid) if pid else (),
        seen=_seen(root, config, given),
        has_view=_same(root / "etc/cdi", view) if root and repository.managed else None,
        hidden_mounts=_hidden_mounts(root, specs),
    )


def effective(facts: DaemonFacts) -> dict[str, object]:
    """The daemon's configuration and flags together; plugins excepted, which count in the file only."""
    return _effective(facts.config, facts.flags)


def _effective(config: Mapping[str, object], given: flags.Flags) -> dict[str, object]:
    merged = dict(config)
    for flag, key in (("cdi-spec-dir", "cdi-spec-dirs"), ("host", "hosts")):
        if flag in given:
            merged[key] = list(given[flag])
    if "default-runtime" in given:
        merged["default-runtime"] = flags.last(given, "default-runtime")
    if "add-runtime" in given:
        merged["runtimes"] = {value.partition("=")[0]: {} for value in given["add-runtime"]}
    if flags.last(given, "experimental") == "true":
        merged["experimental"] = True
    if any("enable" in value and "false" not in value for value in given.get("nri-opts", ())):
        merged["nri-opts"] = {"enable": True}
    if features := flags.features(given):
        merged["features"] = features
    return merged


def _config(path: Path) -> tuple[Mapping[str, object], str]:
    try:
        return daemon_json.read(path), ""
    except UntrustedError as error:
        return {}, error.message


def _gate_problem(path: Path) -> str:
    """Why the gate does not answer on its socket; empty when it does."""
    try:
        status, body = unix_http.request(path, "POST", "/Plugin.Activate", TIMEOUT)
    except UnreachableError as error:
        return error.message
    return "" if status == 200 and b"authz" in body else f"{path} answers like no authorization plugin"


def _info(
    repository: Repository,
    pid: int | None,
    gate_problem: str,
    config: Mapping[str, object],
    given: flags.Flags,
) -> tuple[Mapping[str, object] | None, str]:
    if pid is None:
        return None, "it does not run"
    named = config.get("authorization-plugins") or given.get("authorization-plugin")
    if gate_problem and named:
        # Asked now, dockerd would try its plugin for half a minute.
        return None, "its gate does not answer"
    try:
        return unix_http.get_object(repository.socket, "/info", TIMEOUT), ""
    except UnreachableError as error:
        return None, error.message


#: A request that the gate always denies (the rule managed-plugin), and that finds nothing to do without it.
_PROBE = "/v1.44/plugins/rediacc-doctor/disable"


def _asks(daemon_socket: Path, plugin: str) -> bool | None:
    """Try it: ``/info`` goes on to name a plugin of the command line after a reload has dropped it."""
    try:
        status, body = unix_http.request(daemon_socket, "POST", _PROBE, TIMEOUT)
    except UnreachableError:
        return None
    return status == 403 and plugin.encode() in body


def _version(info: Mapping[str, object] | None, pid: int | None) -> EngineVersion | None:
    try:
        if info:
            return EngineVersion.parse(str(info.get("ServerVersion")))
        return engine.installed_version(f"/proc/{pid}/exe" if pid else engine.dockerd_path())
    except (RediaccError, ValueError, OSError):
        return None


def socket_facts(path: Path) -> SocketFacts:
    """What is at `path`."""
    try:
        state = path.lstat()
    except OSError:
        return SocketFacts(path)
    listener = daemon.socket_owner(path) if stat.S_ISSOCK(state.st_mode) else None
    return SocketFacts(path, True, stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid, listener)


def _seen(root: Path | None, config: Mapping[str, object], given: flags.Flags) -> tuple[str, ...]:
    named = _effective(config, given).get("cdi-spec-dirs") or ["/etc/cdi", "/var/run/cdi"]
    if root is None or not isinstance(named, list):
        return ()
    return registry.read([f"{root}{directory}" for directory in named]).names()


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(one.stat(), other.stat())
    except OSError:
        return False


def _hidden_mounts(root: Path | None, specs: registry.Registry) -> tuple[str, ...]:
    """What specs mount into containers and the machine has, but this daemon does not see."""
    if root is None:
        return ()
    sources = {mount.host_path for injection in specs.devices.values() for mount in injection.edits.mounts}
    return tuple(
        source for source in sorted(sources) if Path(source).exists() and not Path(f"{root}{source}").exists()
    )


@dataclass(frozen=True)
class MachineFacts:
    """The machine beside its daemons."""

    layout: Layout
    specs: registry.Registry
    #: Specs in /var/run/cdi, which daemons with their default configuration read as well.
    runtime_specs: registry.Registry = field(default_factory=registry.Registry)

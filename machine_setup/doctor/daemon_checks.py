"""Checks of one repository's daemon: does everything that it is asked pass the gate?

Each check takes the facts and gives one finding, or several where it looks at several things.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from machine_setup.doctor.facts import DaemonFacts, effective
from machine_setup.doctor.finding import Finding
from machine_setup.repository import daemon_json
from machine_setup.repository.engine import FLOOR, LISTS_DEVICES, NRI, RECOMMENDED, EngineVersion

Check = Callable[[DaemonFacts], Iterator[Finding]]

#: The first fixed version of each line of releases that CVE-2024-41110 concerns (moby's advisory): before it
#: a request with a Content-Length of 0 reached the daemon with a body that no plugin saw.
_CVE_2024_41110 = (EngineVersion(25, 0, 6), EngineVersion(26, 1, 5), EngineVersion(27, 1, 1))

#: What follows when a key of daemon.json is left open, by the id of its finding.
_IDS: Mapping[str, str] = MappingProxyType(
    {
        "builder.entitlements": "build-entitlements",
        "cdi-spec-dirs": "spec-directories",
        "features.cdi": "cdi-enabled",
        "default-runtime": "default-runtime",
        "runtimes": "other-runtimes",
        "hosts": "tcp-socket",
        "experimental": "experimental",
        "nri-opts": "nri",
    }
)


def repair(facts: DaemonFacts) -> str:
    """The command that puts the daemon's configuration right and makes it count."""
    command = f"renet repo repair {facts.name}"
    if facts.repository.managed or facts.unit:
        return f"{command} --restart"
    return f"{command}, then restart the daemon"


def _take_flag(facts: DaemonFacts, flag: str) -> str:
    if facts.unit:
        return repair(facts)
    # With an option in its file and on its command line, dockerd does not start.
    return f"stop the daemon, {repair(facts).partition(',')[0]}, then start it without {flag}"


def running(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the daemon runs and says what it is."""
    if facts.pid is None:
        how = "start" if facts.repository.managed else "list"
        yield Finding.warning(
            facts.name,
            "daemon-running",
            "its daemon does not run: only its files were looked at",
            why="what a daemon really does is seen while it runs",
            fix=f"renet repo {how} {facts.name}",
        )
    elif facts.info is None:
        yield Finding.failure(
            facts.name,
            "daemon-running",
            f"its daemon does not answer: {facts.info_problem}",
            why="its tenants are refused everything, and it cannot be looked at",
            fix="start the gate: systemctl start rediacc-gate (renet gate serve without systemd)",
        )
    else:
        yield Finding.ok(facts.name, "daemon-running", f"Docker {facts.version}, process {facts.pid}")


def gate_answers(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the gate listens for this repository."""
    if facts.gate_problem:
        yield Finding.failure(
            facts.name,
            "gate-answers",
            f"the gate does not answer: {facts.gate_problem}",
            why="dockerd refuses everything while its plugin is away, and keeps each client waiting",
            fix="systemctl restart rediacc-gate (renet gate serve without systemd)",
        )
    else:
        yield Finding.ok(facts.name, "gate-answers", f"the gate listens on {facts.plugin_socket.path}")


def plugin_configured(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether daemon.json names the plugin: named by the flag alone it is dropped at the next SIGHUP."""
    path = facts.repository.daemon_json
    named = facts.config.get("authorization-plugins")
    on_flag = facts.plugin in facts.flags.get("authorization-plugin", ())
    if isinstance(named, list) and facts.plugin in named:
        yield Finding.ok(facts.name, "plugin-configured", f"{path} names {facts.plugin}")
    elif on_flag:
        yield Finding.failure(
            facts.name,
            "plugin-configured",
            f"{facts.plugin} is named on dockerd's command line, not in {path}",
            why="the next reload (SIGHUP) takes plugins from the file alone: the gate is asked nothing then",
            fix=_take_flag(facts, "--authorization-plugin"),
        )
    else:
        problem = facts.config_problem or f"{path} does not name {facts.plugin}"
        yield Finding.failure(
            facts.name, "plugin-configured", problem, why="the gate is asked nothing", fix=repair(facts)
        )


def plugin_live(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the running daemon asks the gate now."""
    if facts.asks_gate:
        yield Finding.ok(facts.name, "plugin-live", f"the running daemon asks {facts.plugin}")
    elif facts.asks_gate is False:
        yield Finding.failure(
            facts.name,
            "plugin-live",
            f"the running daemon does not ask {facts.plugin}",
            why="every request passes unseen: a reload has dropped the plugin, or it never was there",
            fix=repair(facts),
        )


def configuration(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether file and flags together leave open what the gate cannot see."""
    version = facts.version or FLOOR
    wrong = {
        deviation.key: deviation
        for deviation in daemon_json.deviations(effective(facts), facts.plugin, facts.spec_dir, version)
    }
    for key, identity in _IDS.items():
        deviation = wrong.get(key)
        if deviation is None:
            yield Finding.ok(facts.name, identity, f"{key} is as it must be")
        else:
            told = f"{key} is {deviation.found}; it must be {deviation.wanted}"
            yield Finding.failure(facts.name, identity, told, why=deviation.why, fix=repair(facts))


def runtime_live(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the running daemon's runtime is runc, whatever its file says since."""
    if facts.info is None:
        return
    default = str(facts.info.get("DefaultRuntime"))
    others = sorted(set(_mapping(facts.info.get("Runtimes"))) - daemon_json.RUNC)
    if default not in daemon_json.RUNC:
        yield Finding.failure(
            facts.name,
            "runtime-live",
            f"the running daemon's default runtime is {default}",
            why="it gives devices to containers that name none",
            fix=repair(facts),
        )
    elif others:
        yield Finding.failure(
            facts.name,
            "runtime-live",
            f"the running daemon has the runtimes {', '.join(others)}",
            why="any runtime but runc decides by itself which devices a container gets",
            fix=repair(facts),
        )
    else:
        yield Finding.ok(facts.name, "runtime-live", "the running daemon has runc alone")


def spec_directories_live(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the running daemon reads its specs where it must, and knows the granted devices only."""
    if facts.info is None or facts.version is None:
        return
    directories = facts.info.get("CDISpecDirs")
    if isinstance(directories, list) and directories != [str(facts.spec_dir)]:
        yield Finding.failure(
            facts.name,
            "spec-directories-live",
            f"the running daemon reads specs from {', '.join(map(str, directories)) or 'nowhere'}",
            why="a spec in another directory overrides the machine's, and every device of it is to be had",
            fix=repair(facts),
        )
        return
    if facts.version >= LISTS_DEVICES:
        listed = facts.info.get("DiscoveredDevices") or []
        names = (
            {str(entry.get("ID")) for entry in listed if isinstance(entry, dict)}
            if isinstance(listed, list)
            else set()
        )
        if names != set(facts.seen):
            yield Finding.warning(
                facts.name,
                "spec-directories-live",
                f"the running daemon knows {_names(names)}, its directory has {_names(facts.seen)}",
                why="it has missed a change of its specs",
                fix="renet repo views; if it stays: " + repair(facts),
            )
            return
    yield Finding.ok(facts.name, "spec-directories-live", f"the running daemon reads {facts.spec_dir} alone")


def tcp_listener(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether dockerd really listens on a TCP port, however it came to."""
    if facts.tcp_ports:
        ports = ", ".join(map(str, facts.tcp_ports))
        yield Finding.failure(
            facts.name,
            "tcp-listener",
            f"its daemon listens on TCP port {ports}",
            why="whoever reaches the port is a tenant of this repository, and no file mode protects a port",
            fix=_close_port(facts),
        )
    elif facts.pid:
        yield Finding.ok(facts.name, "tcp-listener", "its daemon listens on no TCP port")


def _close_port(facts: DaemonFacts) -> str:
    hosts = effective(facts).get("hosts")
    named = [host for host in hosts if daemon_json.is_open_host(host)] if isinstance(hosts, list) else []
    if not named:
        return "take the port from the unit that hands it its sockets: systemctl edit --full docker.socket"
    if any(host in facts.flags.get("host", ()) for host in named):
        return _take_flag(facts, f"--host={named[0]}")
    return repair(facts)


def engine_version(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the engine is one that can be guarded."""
    version = facts.version
    upgrade = (
        f"install Docker {RECOMMENDED} or newer (apt-get install --only-upgrade docker.io), then restart it"
    )
    if version is None:
        yield Finding.warning(
            facts.name,
            "engine-version",
            "the engine's version cannot be learnt",
            why="old engines hide request bodies from the gate",
            fix=upgrade,
        )
    elif version < FLOOR:
        yield Finding.failure(
            facts.name,
            "engine-version",
            f"Docker {version} has no CDI; {FLOOR.major} is the oldest that has",
            why="no grant can have an effect, and CVE-2024-41110 lets requests pass the gate unseen",
            fix=upgrade,
        )
    elif _has_cve_2024_41110(version):
        yield Finding.failure(
            facts.name,
            "engine-version",
            f"Docker {version} is older than the fix for CVE-2024-41110",
            why="a request whose length is given as 0 reaches the daemon with a body that the gate never saw",
            fix=upgrade,
        )
    elif version < RECOMMENDED:
        yield Finding.warning(
            facts.name,
            "engine-version",
            f"Docker {version} is, by its number, older than the fix for CVE-2026-34040",
            why=(
                "it may hide large request bodies from the gate, which then refuses them "
                "(distributions fix it without a new number)"
            ),
            fix=upgrade,
        )
    else:
        yield Finding.ok(facts.name, "engine-version", f"Docker {version}")


def _has_cve_2024_41110(version: EngineVersion) -> bool:
    fixed = next((fix for fix in _CVE_2024_41110 if fix.major == version.major), None)
    return fixed is not None and version < fixed


def nri_live(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether NRI plugins run in the daemon's containerd, as far as the engine has them at all."""
    if facts.info is None or facts.version is None or facts.version < NRI:
        return
    if facts.info.get("NRI"):
        yield Finding.failure(
            facts.name,
            "nri-live",
            "the running daemon has NRI on",
            why="an NRI plugin may add devices to any container after the gate has judged it",
            fix=repair(facts),
        )
    else:
        yield Finding.ok(facts.name, "nri-live", "the running daemon has NRI off")


def view_in_place(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the second lock is closed: the daemon's /etc/cdi is the view of the granted devices."""
    if facts.has_view is None:
        return
    if facts.has_view:
        yield Finding.ok(facts.name, "view-in-place", f"its /etc/cdi is {facts.view_dir}")
    else:
        yield Finding.failure(
            facts.name,
            "view-in-place",
            "its /etc/cdi is not the view of the granted devices",
            why="what gets past the gate has every device of the machine",
            fix=f"renet repo stop {facts.name}; renet repo start {facts.name}",
        )


def mounts_visible(facts: DaemonFacts) -> Iterator[Finding]:
    """Whether the daemon sees what specs mount into containers."""
    if facts.hidden_mounts:
        yield Finding.failure(
            facts.name,
            "mounts-visible",
            f"its daemon does not see {', '.join(facts.hidden_mounts)}",
            why="containers with a device that mounts it do not start",
            fix=f"renet repo stop {facts.name}; renet repo start {facts.name}",
        )
    elif facts.pid:
        yield Finding.ok(facts.name, "mounts-visible", "its daemon sees what the specs mount")


CHECKS: tuple[Check, ...] = (
    running,
    gate_answers,
    plugin_configured,
    plugin_live,
    configuration,
    runtime_live,
    spec_directories_live,
    tcp_listener,
    engine_version,
    nri_live,
    view_in_place,
    mounts_visible,
)


def _names(names: object) -> str:
    return ", ".join(sorted(map(str, names))) or "no device" if isinstance(names, set | tuple) else str(names)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

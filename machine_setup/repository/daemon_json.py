"""daemon.json: what a repository's daemon must be told so that nothing passes unseen by the gate.

`document` is the whole file of a daemon that renet makes; `deviations` says what another daemon's file lacks,
and `repaired` puts it right and leaves the rest of the file as its owner wrote it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from machine_setup.repository.engine import CDI_BY_DEFAULT, NRI, EngineVersion
from machine_setup.repository.network import NETWORK_PREFIX, Network
from spec.errors import UntrustedError

Document = dict[str, object]

#: The names under which runc, and nothing else, may be asked for (moby: the two that need no configuration).
RUNC = frozenset({"runc", "io.containerd.runc.v2"})


@dataclass(frozen=True)
class Settings:
    """What differs from one created daemon to the next."""

    plugin: str
    data_root: Path
    exec_root: Path
    #: The parent of the containers' cgroups: a slice under systemd, a path without.
    cgroup_parent: str
    cgroup_driver: str
    #: `None` where the machine manages its own network.
    network: Network | None


def document(settings: Settings, version: EngineVersion) -> Document:
    """The daemon.json of a repository's daemon on an engine of `version`."""
    closed: Document = {
        # In the file: a plugin named by the flag alone is dropped at the next SIGHUP.
        "authorization-plugins": [settings.plugin],
        "builder": {"entitlements": dict(ENTITLEMENTS)},
        "cdi-spec-dirs": ["/etc/cdi"],
        "cgroup-parent": settings.cgroup_parent,
        "data-root": str(settings.data_root),
        "default-runtime": "runc",
        "exec-opts": [f"native.cgroupdriver={settings.cgroup_driver}"],
        "exec-root": str(settings.exec_root),
        "experimental": False,
        "features": {"cdi": True},
        # The socket is handed over: the daemon need not see the directory where all repositories' are.
        "hosts": ["fd://"],
        "pidfile": str(settings.exec_root / "docker.pid"),
        # The firewall is ours: see `machine_setup.repository.network`.
        "ip-forward": False,
        "ip-masq": False,
        "ip6tables": False,
        "iptables": False,
    }
    if version >= NRI:
        closed["nri-opts"] = {"enable": False}
    return closed | _network(settings.network)


#: BuildKit's ways to more than a build needs. `device` is 29.0's, and on there by default; older engines
#: skip what they do not know below `builder` (moby config.go, `skipValidateOptions`), and the engine may be
#: updated under the file: so it is always written.
ENTITLEMENTS: Mapping[str, bool] = {"device": False, "security-insecure": False}


def _network(network: Network | None) -> Document:
    if network is None:
        return {"bridge": "none"}
    pool = {"base": str(network.tenant_pool), "size": max(NETWORK_PREFIX, network.tenant_pool.prefixlen)}
    return {"bridge": network.bridge, "default-address-pools": [pool]}


@dataclass(frozen=True)
class Deviation:
    """One key of a daemon.json that leaves something open."""

    key: str
    found: str
    wanted: str
    why: str


def deviations(
    config: Mapping[str, object], plugin: str, spec_dir: Path, version: EngineVersion
) -> tuple[Deviation, ...]:
    """What `config` must change for a daemon of `version` whose specs are in `spec_dir`."""
    found = (
        _plugin(config, plugin),
        _entitlements(config),
        _spec_dirs(config, spec_dir),
        _cdi(config, version),
        _default_runtime(config),
        _runtimes(config),
        _hosts(config),
        _experimental(config),
        _nri(config),
    )
    return tuple(deviation for deviation in found if deviation)


def _plugin(config: Mapping[str, object], plugin: str) -> Deviation | None:
    plugins = config.get("authorization-plugins")
    if isinstance(plugins, list) and plugin in plugins:
        return None
    why = "without it in the file the gate is asked nothing after the next reload"
    return Deviation("authorization-plugins", _shown(plugins), f"[{json.dumps(plugin)}]", why)


def _entitlements(config: Mapping[str, object]) -> Deviation | None:
    entitlements = _mapping(_mapping(config.get("builder")).get("entitlements"))
    if all(entitlements.get(name) is False for name in ENTITLEMENTS):
        return None
    why = "a build could ask BuildKit for devices or for a privileged step, unseen by the gate"
    return Deviation("builder.entitlements", _shown(entitlements or None), json.dumps(ENTITLEMENTS), why)


def _spec_dirs(config: Mapping[str, object], spec_dir: Path) -> Deviation | None:
    if config.get("cdi-spec-dirs") == [str(spec_dir)]:
        return None
    why = "a spec in another directory (/var/run/cdi is a default) overrides the machine's"
    return Deviation("cdi-spec-dirs", _shown(config.get("cdi-spec-dirs")), json.dumps([str(spec_dir)]), why)


def _cdi(config: Mapping[str, object], version: EngineVersion) -> Deviation | None:
    switch = _mapping(config.get("features")).get("cdi")
    if switch is True or (switch is None and version >= CDI_BY_DEFAULT):
        return None
    why = "without CDI no grant can have an effect"
    return Deviation("features.cdi", _shown(switch), "true", why)


def _default_runtime(config: Mapping[str, object]) -> Deviation | None:
    runtime = config.get("default-runtime", "runc")
    if runtime in RUNC:
        return None
    why = "a default runtime other than runc, such as NVIDIA's, gives devices to requests that name none"
    return Deviation("default-runtime", _shown(runtime), '"runc"', why)


def _runtimes(config: Mapping[str, object]) -> Deviation | None:
    runtimes = _mapping(config.get("runtimes"))
    if not runtimes:
        return None
    why = "any other runtime decides by itself which devices a container gets"
    return Deviation("runtimes", ", ".join(sorted(runtimes)), "no entry", why)


def _hosts(config: Mapping[str, object]) -> Deviation | None:
    hosts = config.get("hosts")
    open_hosts = [host for host in hosts if is_open_host(str(host))] if isinstance(hosts, list) else []
    if not open_hosts:
        return None
    why = "whoever reaches the port is a tenant of this repository, and no file mode protects a port"
    return Deviation("hosts", ", ".join(map(str, open_hosts)), "no tcp:// host", why)


def is_open_host(host: str) -> bool:
    """Whether the daemon's `host` is reached without a file's permissions."""
    return not host.startswith(("unix://", "fd://", "/"))


def _experimental(config: Mapping[str, object]) -> Deviation | None:
    if config.get("experimental", False) is False:
        return None
    why = "experimental endpoints (checkpoints) restore processes with devices that nobody granted"
    return Deviation("experimental", _shown(config["experimental"]), "false", why)


def _nri(config: Mapping[str, object]) -> Deviation | None:
    if not _mapping(config.get("nri-opts")).get("enable"):
        return None
    why = "an NRI plugin may add devices to any container after the gate has judged it"
    return Deviation("nri-opts", _shown(config["nri-opts"]), '{"enable": false}', why)


def repaired(
    config: Mapping[str, object], plugin: str, spec_dir: Path, version: EngineVersion
) -> tuple[Document, tuple[Deviation, ...]]:
    """`config` with every deviation put right, and the deviations."""
    wrong = deviations(config, plugin, spec_dir, version)
    keys = {deviation.key for deviation in wrong}
    fixed = dict(config)
    if "authorization-plugins" in keys:
        others = config.get("authorization-plugins")
        fixed["authorization-plugins"] = [plugin, *(others if isinstance(others, list) else [])]
    if "builder.entitlements" in keys:
        builder = _mapping(config.get("builder"))
        closed = {**_mapping(builder.get("entitlements")), **ENTITLEMENTS}
        fixed["builder"] = {**builder, "entitlements": closed}
    if "cdi-spec-dirs" in keys:
        fixed["cdi-spec-dirs"] = [str(spec_dir)]
    if "features.cdi" in keys:
        fixed["features"] = {**_mapping(config.get("features")), "cdi": True}
    if "hosts" in keys:
        fixed["hosts"] = [host for host in cast(list[str], config["hosts"]) if not is_open_host(host)]
    for key in keys & {"default-runtime", "runtimes", "experimental", "nri-opts"}:
        del fixed[key]
    return fixed, wrong


def encode(config: Mapping[str, object]) -> bytes:
    """`config` as the file has it."""
    return json.dumps(config, indent=2, sort_keys=True).encode() + b"\n"


def read(path: Path) -> Document:
    """The daemon.json at `path`, empty where there is none; raises `UntrustedError` when it is no object."""
    try:
        config: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UntrustedError(f"{path} cannot be read: {error}", "put it right, then repeat") from error
    if not isinstance(config, dict):
        raise UntrustedError(f"{path} is not a JSON object", "put it right, then repeat")
    return config


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value)

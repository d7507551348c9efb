"""Where things are on a machine: every path hangs off one root."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_VARIABLE = "REDIACC_ROOT"
PLUGIN_DIR_VARIABLE = "REDIACC_PLUGIN_DIR"


@dataclass(frozen=True)
class Layout:
    """The files of one machine.

    `root` is ``/`` on a real machine; tests and the demonstration use a directory of their own.
    `plugin_dir` is where plugin sockets go. It is separate because dockerd looks for them in
    ``/run/docker/plugins`` only, wherever its own data is.
    """

    root: Path
    plugin_dir: Path
    #: Where the file system of the repositories' daemons is seen: elsewhere when the gate is in a container.
    host: Path = Path("/")

    @classmethod
    def at(cls, root: Path | str, plugin_dir: Path | str | None = None) -> "Layout":
        """The layout below `root`, with its plugin sockets below `root` too unless `plugin_dir` is given."""
        root = Path(root).absolute()
        return cls(root, Path(plugin_dir).absolute() if plugin_dir else root / "run/docker/plugins")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Layout":
        """The layout that ``REDIACC_ROOT`` and ``REDIACC_PLUGIN_DIR`` name; the real machine without them."""
        return cls.at(environ.get(ROOT_VARIABLE) or "/", environ.get(PLUGIN_DIR_VARIABLE))

    @property
    def cdi_dir(self) -> Path:
        """The only directory of CDI specs that repositories' daemons read."""
        return self.root / "etc/cdi"

    @property
    def nvidia_spec(self) -> Path:
        """NVIDIA's own spec, from nvidia-ctk."""
        return self.cdi_dir / "nvidia.yaml"

    @property
    def setup_lock(self) -> Path:
        """The lock that a set-up holds: there is one at a time."""
        return self.root / "run/rediacc/setup.lock"

    @property
    def inventory(self) -> Path:
        """The machine's GPUs and devices, as set-up recorded them."""
        return self.root / "etc/rediacc/gpu/inventory.json"

    @property
    def grants(self) -> Path:
        """All grants of the machine."""
        return self.root / "etc/rediacc/gpu/grants.json"

    @property
    def grants_lock(self) -> Path:
        """The lock that every change of grants or repositories holds."""
        return self.root / "etc/rediacc/gpu/grants.lock"

    @property
    def generations(self) -> Path:
        """The last few states of the grants and of the register, to restore one from."""
        return self.root / "etc/rediacc/gpu/generations"

    @property
    def register(self) -> Path:
        """The repositories of the machine."""
        return self.root / "etc/rediacc/repositories.json"

    @property
    def gate_options(self) -> Path:
        """The operator's options for the gate."""
        return self.root / "etc/rediacc/gate.yaml"

    @property
    def gate_log(self) -> Path:
        """The gate's decision log."""
        return self.root / "var/log/rediacc/gate.jsonl"

    @property
    def audit_log(self) -> Path:
        """The log of every change of grants and repositories."""
        return self.root / "var/log/rediacc/audit.jsonl"

    def plugin_socket(self, slug: str) -> Path:
        """The gate's socket for the repository `slug`; its stem is the plugin's name in dockerd."""
        return self.plugin_dir / f"rediacc-{slug}.sock"

    def docker_socket(self, slug: str) -> Path:
        """The Docker API of the repository `slug`, where we start its daemon."""
        return self.root / f"run/rediacc/docker-{slug}.sock"

    def daemon_json(self, slug: str) -> Path:
        """The configuration of the daemon of the repository `slug`, where we start it."""
        return self.root / f"etc/rediacc/docker/{slug}.json"

    def repository_dir(self, guid: str) -> Path:
        """What belongs to the repository `guid`: its daemon's data root and its files."""
        return self.root / "var/lib/rediacc/repos" / guid

    def data_root(self, guid: str) -> Path:
        """The data root of the daemon of the repository `guid`, where we start it."""
        return self.repository_dir(guid) / "docker"

    def exec_root(self, guid: str) -> Path:
        """The state of that daemon while it runs; short, since the sockets below it have long names."""
        return self.root / "run/rediacc/exec" / guid.replace("-", "")[:12]

    def shim_dir(self, guid: str) -> Path:
        """Where the shims of that daemon's containers keep their sockets; it sees it as /run/containerd."""
        return self.root / "run/rediacc/shims" / guid.replace("-", "")[:12]

    def view_dir(self, slug: str) -> Path:
        """The CDI specs cut down to what is granted to the repository `slug`: its daemon's /etc/cdi."""
        return self.root / "run/rediacc/cdi" / slug

    @property
    def unit_dir(self) -> Path:
        """Where an administrator's systemd units are."""
        return self.root / "etc/systemd/system"

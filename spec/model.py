"""What a CDI spec says, as values.

The fields are those of the CDI specification, version 1.1.0, under Python names. Text that a file leaves
out is empty, a list is an empty tuple and a number is `None`, unless a field says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node that appears in the container as `path`.

    Without `major` and `minor` the engine looks them up at `host_path` (or `path`) when the container
    starts; with them it does not look, and a stale node goes in silently.
    """

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None

    @property
    def source(self) -> str:
        """The path of the node on the host."""
        return self.host_path or self.path


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host that appears in the container."""

    host_path: str = ""
    container_path: str = ""
    options: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that the runtime runs on the host, as root, at a moment of the container's life."""

    name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class IntelRdt:
    """A class of Intel's Resource Director Technology."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A network interface that moves into the container as `name`."""

    host_interface_name: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What is added to a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()

    def is_empty(self) -> bool:
        """Whether nothing is added. An `intel_rdt` counts even with nothing in it."""
        lists = (self.env, self.device_nodes, self.mounts, self.hooks, self.additional_gids, self.net_devices)
        return self.intel_rdt is None and not any(lists)

    def then(self, later: "ContainerEdits") -> "ContainerEdits":
        """Both edits, in the order in which an engine applies them."""
        return ContainerEdits(
            env=self.env + later.env,
            device_nodes=self.device_nodes + later.device_nodes,
            mounts=self.mounts + later.mounts,
            hooks=self.hooks + later.hooks,
            intel_rdt=later.intel_rdt or self.intel_rdt,
            additional_gids=self.additional_gids + later.additional_gids,
            net_devices=self.net_devices + later.net_devices,
        )


NO_EDITS = ContainerEdits()


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a spec; `name` is the part after the ``=`` of its qualified name."""

    name: str = ""
    edits: ContainerEdits = NO_EDITS
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec file. `edits` are applied with every one of its devices."""

    version: str = ""
    kind: str = ""
    devices: tuple[Device, ...] = ()
    edits: ContainerEdits = NO_EDITS
    annotations: Mapping[str, str] = field(default_factory=dict)

    def qualified_names(self) -> tuple[str, ...]:
        """The qualified names of its devices, in the file's order."""
        return tuple(f"{self.kind}={device.name}" for device in self.devices)

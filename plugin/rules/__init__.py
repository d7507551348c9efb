"""The rules: one module for each way in that the gate closes.

A rule is a function of a field's value and the context; it yields a denial for each offence. It runs only
where its field is given: not null, and not the zero value where dockerd makes nothing of one.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from plugin.context import Context
from plugin.denial import Denial, unreadable
from plugin.rules import binds, confinement, devices, namespaces, privilege

Rule = Callable[..., Iterator[Denial]]

# By field of HostConfig, those that reach hardware first: the first denial is what the user reads.
HOST_CONFIG: Mapping[str, Rule] = MappingProxyType(
    {
        "DeviceRequests": devices.device_request,
        "Devices": devices.raw_device,
        "DeviceCgroupRules": devices.device_cgroup_rule,
        "Runtime": privilege.runtime,
        "Privileged": privilege.privileged,
        "PidMode": namespaces.pid,
        "UsernsMode": namespaces.userns,
        "CgroupnsMode": namespaces.cgroupns,
        "MaskedPaths": confinement.masked_paths,
        "ReadonlyPaths": confinement.readonly_paths,
        "Annotations": confinement.annotations,
        "CgroupParent": confinement.cgroup_parent,
        "Cgroup": confinement.cgroup,
        "VolumeDriver": binds.volume_driver,
        "Tmpfs": binds.tmpfs,
        "Binds": binds.binds,
        "Mounts": binds.mounts,
        "CapAdd": privilege.capabilities,
        "SecurityOpt": confinement.security_options,
        "IpcMode": namespaces.ipc,
        "UTSMode": namespaces.uts,
        "LogConfig": confinement.log_config,
        "Sysctls": confinement.sysctls,
        "StorageOpt": confinement.storage_options,
        "Isolation": confinement.isolation,
    }
)
# `[]` is not "not given" for these: it unmasks everything.
GIVEN_WHEN_EMPTY = frozenset({"MaskedPaths", "ReadonlyPaths"})

# A stored configuration: the daemon has filled in the masks.
STORED: Mapping[str, Rule] = MappingProxyType(
    {
        **HOST_CONFIG,
        "MaskedPaths": confinement.stored_masked_paths,
        "ReadonlyPaths": confinement.stored_readonly_paths,
    }
)

UPDATE: Mapping[str, Rule] = MappingProxyType(
    {
        "DeviceRequests": devices.device_request_on_update,
        "Devices": devices.raw_device,
        "DeviceCgroupRules": devices.device_cgroup_rule,
        "CgroupParent": confinement.cgroup_parent,
    }
)


# No container has more of anything, and an attacker's million of binds must not hold up the other
# repositories.
MAX_ENTRIES = 1000


def applying(
    rules: Mapping[str, Rule], fields: Mapping[str, object], context: Context
) -> Iterator[Iterator[Denial]]:
    """The denials of each rule whose field is given, rule by rule."""
    for name, rule in rules.items():
        value = fields.get(name)
        if isinstance(value, list | dict) and len(value) > MAX_ENTRIES:
            yield iter(
                [unreadable(f"it has more than {MAX_ENTRIES} entries here", f"HostConfig.{name}").denial]
            )
        elif value or (value is not None and name in GIVEN_WHEN_EMPTY):
            yield rule(value, context)

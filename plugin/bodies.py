"""The bodies that the gate inspects: every field of the Docker API from 1.41 to 1.56, by its exact name and
type.

Read in moby's ``api/types`` (v25.0 to master of 2026-08) and in its API history since (29.8). `since` and
`until` are API versions; a field outside them is ignored by dockerd, and judged all the same. `rule` names
the rule that looks at the field; a field without one is harmless at any value of its type. What is not here
is refused as ``unknown-field``.
"""

from plugin.fields import (
    ANYTHING,
    BOOLEAN,
    EMPTY_OBJECTS,
    INTEGER,
    LABELS,
    STRING,
    STRINGS,
    Field,
    Kind,
    integer,
    list_of,
    map_of,
    struct,
)

FLOOR_VERSION = "1.41"
NEWEST_VERSION = "1.56"

_UNSIGNED = integer(64, signed=False)
_STRING_MAP = map_of(STRING, null_values=True)


def _plain(**kinds: Kind) -> dict[str, Field]:
    return {name: Field(kind) for name, kind in kinds.items()}


def _object(**kinds: Kind) -> Kind:
    return struct(_plain(**kinds))


HEALTHCHECK = struct(
    {
        **_plain(Test=STRINGS, Interval=INTEGER, Timeout=INTEGER, StartPeriod=INTEGER, Retries=INTEGER),
        "StartInterval": Field(INTEGER, since="1.44"),
    }
)

CONFIG = {
    **_plain(
        Hostname=STRING,
        Domainname=STRING,
        User=STRING,
        AttachStdin=BOOLEAN,
        AttachStdout=BOOLEAN,
        AttachStderr=BOOLEAN,
        ExposedPorts=EMPTY_OBJECTS,
        Tty=BOOLEAN,
        OpenStdin=BOOLEAN,
        StdinOnce=BOOLEAN,
        Env=STRINGS,
        Cmd=STRINGS,
        Healthcheck=HEALTHCHECK,
        ArgsEscaped=BOOLEAN,
        Image=STRING,
        Volumes=EMPTY_OBJECTS,
        WorkingDir=STRING,
        Entrypoint=STRINGS,
        NetworkDisabled=BOOLEAN,
        OnBuild=STRINGS,
        Labels=LABELS,
        StopSignal=STRING,
        StopTimeout=INTEGER,
        Shell=STRINGS,
    ),
    "MacAddress": Field(STRING, until="1.43"),
}

_WEIGHT_DEVICES = list_of(_object(Path=STRING, Weight=integer(16, signed=False)))
_RATE_DEVICES = list_of(_object(Path=STRING, Rate=_UNSIGNED))
_DEVICE = _object(PathOnHost=STRING, PathInContainer=STRING, CgroupPermissions=STRING)
_DEVICE_REQUEST = _object(
    Driver=STRING,
    Count=INTEGER,
    DeviceIDs=STRINGS,
    Capabilities=list_of(STRINGS),
    Options=_STRING_MAP,
)
_RESTART_POLICY = _object(Name=STRING, MaximumRetryCount=INTEGER)

RESOURCES = {
    **_plain(
        CpuShares=INTEGER,
        Memory=INTEGER,
        NanoCpus=INTEGER,
        BlkioWeight=integer(16, signed=False),
        BlkioWeightDevice=_WEIGHT_DEVICES,
        BlkioDeviceReadBps=_RATE_DEVICES,
        BlkioDeviceWriteBps=_RATE_DEVICES,
        BlkioDeviceReadIOps=_RATE_DEVICES,
        BlkioDeviceWriteIOps=_RATE_DEVICES,
        CpuPeriod=INTEGER,
        CpuQuota=INTEGER,
        CpuRealtimePeriod=INTEGER,
        CpuRealtimeRuntime=INTEGER,
        CpusetCpus=STRING,
        CpusetMems=STRING,
        MemoryReservation=INTEGER,
        MemorySwap=INTEGER,
        MemorySwappiness=INTEGER,
        OomKillDisable=BOOLEAN,
        PidsLimit=INTEGER,
        Ulimits=list_of(_object(Name=STRING, Hard=INTEGER, Soft=INTEGER)),
        CpuCount=INTEGER,
        CpuPercent=INTEGER,
        IOMaximumIOps=_UNSIGNED,
        IOMaximumBandwidth=_UNSIGNED,
    ),
    "KernelMemory": Field(INTEGER, until="1.41"),
    "KernelMemoryTCP": Field(INTEGER, until="1.51"),
    "CgroupParent": Field(STRING, rule="annotation"),
    "Devices": Field(list_of(_DEVICE), rule="raw-device"),
    "DeviceCgroupRules": Field(STRINGS, rule="device-cgroup-rule"),
    "DeviceRequests": Field(list_of(_DEVICE_REQUEST), rule="device-request-form, device-not-granted"),
}

_MOUNT = struct(
    {
        "Type": Field(STRING, rule="raw-mount"),
        "Source": Field(STRING, rule="bind-hardware, bind-control, bind-system"),
        "Target": Field(STRING),
        "ReadOnly": Field(BOOLEAN),
        "Consistency": Field(STRING),
        "BindOptions": Field(
            struct(
                {
                    "Propagation": Field(STRING, rule="bind-system"),
                    "NonRecursive": Field(BOOLEAN),
                    "CreateMountpoint": Field(BOOLEAN, since="1.42"),
                    "ReadOnlyNonRecursive": Field(BOOLEAN, since="1.44"),
                    "ReadOnlyForceRecursive": Field(BOOLEAN, since="1.44"),
                }
            )
        ),
        "VolumeOptions": Field(
            struct(
                {
                    "NoCopy": Field(BOOLEAN),
                    "Labels": Field(LABELS),
                    "Subpath": Field(STRING, since="1.45"),
                    "DriverConfig": Field(_object(Name=STRING, Options=_STRING_MAP), rule="raw-mount"),
                }
            )
        ),
        "ImageOptions": Field(_object(Subpath=STRING), since="1.48"),
        "TmpfsOptions": Field(
            struct(
                {
                    "SizeBytes": Field(INTEGER),
                    "Mode": Field(integer(32, signed=False)),
                    "Options": Field(list_of(STRINGS), since="1.46"),
                }
            )
        ),
        "ClusterOptions": Field(struct({}), since="1.42"),
    }
)

_PORTS = map_of(list_of(_object(HostIp=STRING, HostPort=STRING)), null_values=True)

HOST_CONFIG = {
    **RESOURCES,
    **_plain(
        ContainerIDFile=STRING,  # the client writes it; no daemon reads it
        NetworkMode=STRING,
        PortBindings=_PORTS,
        RestartPolicy=_RESTART_POLICY,
        AutoRemove=BOOLEAN,
        VolumesFrom=STRINGS,
        CapDrop=STRINGS,
        Dns=STRINGS,
        DnsOptions=STRINGS,
        DnsSearch=STRINGS,
        ExtraHosts=STRINGS,
        GroupAdd=STRINGS,
        Links=STRINGS,
        OomScoreAdj=INTEGER,
        PublishAllPorts=BOOLEAN,
        ReadonlyRootfs=BOOLEAN,
        ShmSize=INTEGER,
        Init=BOOLEAN,
    ),
    # Since Docker 29.8.0: the umask of the container's own processes.
    "Umask": Field(integer(32, signed=False), since="1.56"),
    "ConsoleSize": Field(list_of(_UNSIGNED)),
    "Binds": Field(STRINGS, rule="bind-hardware, bind-control, bind-system"),
    "Mounts": Field(list_of(_MOUNT), rule="bind-hardware, bind-control, bind-system, raw-mount"),
    "Tmpfs": Field(_STRING_MAP, rule="raw-mount"),
    "VolumeDriver": Field(STRING, rule="raw-mount"),
    "LogConfig": Field(_object(Type=STRING, Config=_STRING_MAP), rule="security-option"),
    "Annotations": Field(_STRING_MAP, since="1.43", rule="annotation"),
    "Cgroup": Field(STRING, rule="annotation"),
    "CapAdd": Field(STRINGS, rule="kernel-capability, extra-capability"),
    "CgroupnsMode": Field(STRING, rule="host-cgroupns"),
    "IpcMode": Field(STRING, rule="host-ipc"),
    "PidMode": Field(STRING, rule="host-pid"),
    "UTSMode": Field(STRING, rule="host-uts"),
    "UsernsMode": Field(STRING, rule="host-userns"),
    "Privileged": Field(BOOLEAN, rule="privileged"),
    "SecurityOpt": Field(STRINGS, rule="security-option, unmasked-paths"),
    "StorageOpt": Field(_STRING_MAP, rule="security-option"),
    "Sysctls": Field(_STRING_MAP, rule="security-option"),
    "Runtime": Field(STRING, rule="runtime"),
    "Isolation": Field(STRING, rule="security-option"),
    "MaskedPaths": Field(STRINGS, rule="unmasked-paths"),
    "ReadonlyPaths": Field(STRINGS, rule="unmasked-paths"),
}

_ENDPOINT = struct(
    {
        **_plain(
            IPAMConfig=_object(IPv4Address=STRING, IPv6Address=STRING, LinkLocalIPs=STRINGS),
            Links=STRINGS,
            Aliases=STRINGS,
            NetworkID=STRING,
            EndpointID=STRING,
            Gateway=STRING,
            IPAddress=STRING,
            IPPrefixLen=INTEGER,
            IPv6Gateway=STRING,
            GlobalIPv6Address=STRING,
            GlobalIPv6PrefixLen=INTEGER,
            MacAddress=STRING,
            DriverOpts=_STRING_MAP,
        ),
        "DNSNames": Field(STRINGS, since="1.44"),
        "GwPriority": Field(INTEGER, since="1.48"),
    }
)

# What clients add that no version of dockerd gives a meaning to. dockerode sends its own options along; on
# 25 and 26 fields of HostConfig count at the top level when there is no HostConfig, and VolumesFrom is
# harmless there too.
_CLIENT_EXTRAS = _plain(name=STRING, _query=ANYTHING, VolumesFrom=STRINGS)

CREATE_FIELDS = {
    **CONFIG,
    **_CLIENT_EXTRAS,
    "HostConfig": Field(struct(HOST_CONFIG)),
    "NetworkingConfig": Field(_object(EndpointsConfig=map_of(_ENDPOINT, null_values=True))),
}

CREATE = struct(CREATE_FIELDS)


EXEC_FIELDS = {
    **_plain(
        User=STRING,
        Tty=BOOLEAN,
        ConsoleSize=list_of(_UNSIGNED),
        AttachStdin=BOOLEAN,
        AttachStderr=BOOLEAN,
        AttachStdout=BOOLEAN,
        Detach=BOOLEAN,
        DetachKeys=STRING,
        Env=STRINGS,
        WorkingDir=STRING,
        Cmd=STRINGS,
    ),
    "Privileged": Field(BOOLEAN, rule="privileged"),
    # docker-py and aiodocker repeat the container's name, which dockerd does not read; aiodocker spells
    # DetachKeys in its own way, and a string of keys does no harm in any spelling.
    "Container": Field(STRING),
    "detachKeys": Field(STRING),
}

EXEC = struct(EXEC_FIELDS)


UPDATE_FIELDS = {**RESOURCES, "RestartPolicy": Field(_RESTART_POLICY)}

UPDATE = struct(UPDATE_FIELDS)

VOLUME_FIELDS = {
    "Name": Field(STRING),
    "Driver": Field(STRING, rule="raw-mount"),
    "DriverOpts": Field(_STRING_MAP, rule="raw-mount, bind-hardware, bind-control, bind-system"),
    "Labels": Field(LABELS),
}

VOLUME = struct(VOLUME_FIELDS)


NETWORK_FIELDS = {
    **_plain(
        Name=STRING,
        Internal=BOOLEAN,
        Attachable=BOOLEAN,
        EnableIPv6=BOOLEAN,
        Labels=LABELS,
        Options=_STRING_MAP,
    ),
    "EnableIPv4": Field(BOOLEAN, since="1.47"),
    # Older Compose asks for a check that dockerd has always made since 1.44.
    "CheckDuplicate": Field(BOOLEAN, until="1.43"),
    "Driver": Field(STRING, rule="host-network-driver"),
    "Scope": Field(STRING, rule="host-network-driver"),
    "Ingress": Field(BOOLEAN, rule="host-network-driver"),
    "ConfigOnly": Field(BOOLEAN, rule="host-network-driver"),
    "ConfigFrom": Field(_object(Network=STRING), rule="host-network-driver"),
    "IPAM": Field(
        struct(
            {
                "Driver": Field(STRING, rule="host-network-driver"),
                "Options": Field(_STRING_MAP),
                "Config": Field(
                    list_of(
                        _object(
                            Subnet=STRING,
                            IPRange=STRING,
                            Gateway=STRING,
                            AuxiliaryAddresses=_STRING_MAP,
                        )
                    )
                ),
            }
        )
    ),
}

NETWORK = struct(NETWORK_FIELDS)


CONNECT_FIELDS = {"Container": Field(STRING), "EndpointConfig": Field(_ENDPOINT)}

CONNECT = struct(CONNECT_FIELDS)

# A body here was the container's HostConfig before API 1.24; nothing reads it today.
START = struct({})

BODIES: dict[str, Kind] = {
    "POST /containers/create": CREATE,
    "POST /containers/{name}/exec": EXEC,
    "POST /containers/{name}/update": UPDATE,
    "POST /containers/{name}/start": START,
    "POST /volumes/create": VOLUME,
    "POST /networks/create": NETWORK,
    "POST /networks/{name}/connect": CONNECT,
}

"""Every rule of the gate: its id, its tier, what it denies and why. ``docs/rules.md`` is made from this."""

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """How firm a rule is."""

    HARDWARE = "hardware"
    """Reaches a device, or root on the host and so a device. Cannot be switched off."""
    HOST = "host"
    """Weakens the host but reaches no device. An operator may allow it for one repository in gate.yaml."""
    PROTOCOL = "protocol"
    """The gate cannot read the request with certainty. Cannot be switched off."""


@dataclass(frozen=True)
class Rule:
    """One rule. `relaxed_by` says what gate.yaml names to allow it; empty for rules that nothing relaxes."""

    id: str
    tier: Tier
    denies: str
    why: str
    instead: str
    relaxed_by: str = ""


def _hardware(rule: str, denies: str, why: str, instead: str) -> Rule:
    return Rule(rule, Tier.HARDWARE, denies, why, instead)


def _host(rule: str, denies: str, why: str, relaxed_by: str) -> Rule:
    instead = "Leave it out, or ask an operator to allow it for your repository in gate.yaml."
    return Rule(rule, Tier.HOST, denies, why, instead, relaxed_by)


def _protocol(rule: str, denies: str, why: str, instead: str) -> Rule:
    return Rule(rule, Tier.PROTOCOL, denies, why, instead)


_LEAVE_OUT = "Leave it out; a GPU needs no more than `--device` with a granted CDI name."

RULES: tuple[Rule, ...] = (
    _hardware(
        "device-not-granted",
        "A CDI device for which the repository has no live grant, on create, start and restart.",
        "A grant names exactly one device. The stored configuration counts at start, so that a revoked or"
        " expired grant ends there.",
        "Ask an operator for the grant: `rdc repo gpu grant REPO --device NAME`.",
    ),
    _hardware(
        "device-request-form",
        "A device request that is not plain CDI: `--gpus`, Compose `gpus:` and"
        " `deploy.resources.reservations.devices`.",
        "What such a request reaches is chosen by a driver on the host, not by its name.",
        'Use `--device nvidia.com/gpu=all`, in Compose `devices: ["nvidia.com/gpu=all"]`.',
    ),
    _hardware(
        "raw-device",
        "Any device node by its path: `--device /dev/…`, Compose `devices: [/dev/…]`.",
        "A node is hardware without a name that a grant could name.",
        "Use the CDI name of the device with `--device`.",
    ),
    _hardware(
        "device-cgroup-rule",
        "Any rule for the device cgroup: `--device-cgroup-rule`, Compose `device_cgroup_rules:`.",
        "With the default capability MKNOD a rule is a device.",
        "Use the CDI name of the device with `--device`.",
    ),
    _hardware(
        "runtime",
        "A runtime other than runc: `--runtime`, Compose `runtime:`.",
        "Other runtimes add devices by themselves; a name with a dot runs a program of that name.",
        "Leave it out; a granted device needs no special runtime.",
    ),
    _hardware(
        "privileged",
        "`--privileged`, on run, create and exec; Compose `privileged:` and privileged hooks.",
        "A privileged container has every device and every capability.",
        _LEAVE_OUT,
    ),
    _hardware(
        "kernel-capability",
        "Capabilities that reach the kernel, the device cgroup or the clock that grants expire by: ALL,"
        " SYS_ADMIN, SYS_RAWIO, SYS_MODULE, SYS_BOOT, SYS_TIME, SYSLOG, BPF, PERFMON, DAC_READ_SEARCH,"
        " MAC_ADMIN, MAC_OVERRIDE, and every name that the gate does not know.",
        "Each of them is a way to root on the host.",
        _LEAVE_OUT,
    ),
    _hardware(
        "bind-hardware",
        "A bind of `/`, of `/dev`, `/proc` or `/sys` or what is below them, of a device node, or of a"
        " directory into which a kernel file system is mounted; symlinks are followed.",
        "These directories are the hardware and the kernel.",
        "Mount only the directories that hold your data.",
    ),
    _hardware(
        "bind-control",
        "A bind of what controls the gate or the engine: its configuration, CDI specs, plugin sockets, other"
        " daemons' sockets and data, the repository's own data root and exec root, systemd's and D-Bus's"
        " sockets, the gate's own program; or of a directory that contains one.",
        "Who can write there can give themselves a device or root on the host.",
        "Mount only the directories that hold your data; the repository's own API socket is allowed.",
    ),
    _hardware(
        "raw-mount",
        "Volume drivers other than local; volume options that mount a block device, a kernel file system or"
        " layers; mount types other than bind, volume, tmpfs and image; shared mount propagation.",
        "A mount made by the daemon is made as root on the host: `type=devtmpfs` shows the whole of /dev.",
        "Use a plain volume, tmpfs, NFS, CIFS, or a bind of an ordinary directory.",
    ),
    _hardware(
        "unmasked-paths",
        "MaskedPaths and ReadonlyPaths, `--security-opt systempaths=unconfined`, writable cgroups.",
        "A writable /proc/sys is root on the host.",
        _LEAVE_OUT,
    ),
    _hardware("host-pid", "`--pid host`.", "The host's processes are a way to the host's files.", _LEAVE_OUT),
    _hardware("host-userns", "`--userns host`.", "It makes root in the container root outside.", _LEAVE_OUT),
    _hardware("host-cgroupns", "`--cgroupns host`.", "The host's cgroups decide over devices.", _LEAVE_OUT),
    _hardware(
        "annotation",
        "OCI annotations (`--annotation`) and cgroup parents (`--cgroup-parent`, also in a build).",
        "Runtimes obey annotations, some of them by adding devices.",
        "Use labels for notes of your own.",
    ),
    _hardware(
        "managed-plugin",
        "Installing, changing or removing managed plugins.",
        "A managed plugin runs as root on the host, with the devices that its own configuration names.",
        "Ask an operator of this machine.",
    ),
    _hardware(
        "swarm",
        "Swarm: its services, nodes, secrets, configs and cluster volumes.",
        "Services create containers without a request that the gate sees.",
        "Use docker compose.",
    ),
    _hardware(
        "checkpoint",
        "Checkpoints and starting from one.",
        "A checkpoint restores a process whatever the gate says today.",
        "Start the container without a checkpoint.",
    ),
    _hardware(
        "build-device",
        "Builds, while the daemon leaves BuildKit's entitlements for devices or insecure steps open, or"
        " while a CDI spec carries BuildKit's annotation that admits every build.",
        "What a build asks of BuildKit never reaches an authorization plugin.",
        "An operator closes both; the denial names the setting.",
    ),
    _host("host-ipc", "`--ipc host`.", "It shares the host's shared memory.", "true"),
    _host("host-uts", "`--uts host`.", "It shares the host's name.", "true"),
    _host(
        "extra-capability",
        "A capability beyond Docker's default set, IPC_LOCK, SYS_NICE, SYS_PTRACE and CHECKPOINT_RESTORE.",
        "It weakens what keeps the container in.",
        "a list of capabilities, such as [NET_ADMIN]",
    ),
    _host(
        "security-option",
        "Seccomp, AppArmor and SELinux options, log drivers that connect elsewhere, sysctls outside the"
        " container's own namespaces, storage options but size, isolation.",
        "It weakens what keeps the container in.",
        'a list of options, such as ["seccomp=unconfined", "log-driver=syslog", "sysctl=kernel.domainname"]',
    ),
    _host(
        "bind-system",
        "A bind of a directory of the host's system: everything but /home, /srv, /mnt, /media, /data, /opt,"
        " /tmp and the like, and the read-only files that everybody mounts (/etc/localtime, certificates).",
        "Who can write to the system can change what root runs.",
        "a list of directories, such as [/var/log]; what is below them is allowed too",
    ),
    _host(
        "host-network-driver",
        "Network drivers other than bridge and null, IPAM drivers, swarm networks.",
        "It attaches containers to the host's own network cards.",
        "a list of drivers, such as [macvlan]",
    ),
    _protocol(
        "unreadable-request",
        "A request that dockerd might read in another way than the gate: odd spellings of the path, a hidden"
        " body, another case of a key, a key twice, a value of another type.",
        "What cannot be read with certainty cannot be judged.",
        "Use the docker command or an up-to-date client library.",
    ),
    _protocol(
        "unknown-field",
        "A field that the gate does not know, with a value.",
        "A field of a later Docker may be a way to a device.",
        "Leave it out, or ask an operator to update the gate.",
    ),
    _protocol(
        "unknown-endpoint",
        "An endpoint that the gate does not know, and the daemon's debugging endpoints.",
        "An endpoint of a later Docker may be a way to a device.",
        "Use the endpoints of the Docker API, or ask an operator to update the gate.",
    ),
    _protocol(
        "unknown-repository",
        "Every request on a socket that belongs to no repository of the machine.",
        "Without a repository there are no grants to look at.",
        "An operator registers it: `renet repo create` or `renet repo adopt`.",
    ),
    _protocol(
        "grants-unreadable",
        "CDI devices, while the machine's grants cannot be read.",
        "The gate fails closed.",
        "An operator repairs the file; `renet gate check` says what is wrong.",
    ),
)

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}


def tier(rule: str) -> Tier:
    """The tier of the rule with this id."""
    return BY_ID[rule].tier

"""What keeps a container in: masked paths, security options, annotations, log drivers, sysctls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from plugin.context import Context
from plugin.denial import Denial
from plugin.rules.relax import relaxable
from plugin.rules.words import words

_FIX = "Leave it out; a GPU needs no more than --device with a granted CDI name"

# Masked in every engine from 25 on; later ones mask more.
ALWAYS_MASKED = words("/proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/scsi /sys/firmware")
ALWAYS_READ_ONLY = words("/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger")

LOG_DRIVERS = frozenset({"json-file", "local", "none", "journald"})

_IPC_SYSCTLS = words(
    "kernel.msgmax kernel.msgmnb kernel.msgmni kernel.sem kernel.shmall kernel.shmmax"
    " kernel.shmmni kernel.shm_rmid_forced"
)
_TRUTHS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSEHOODS = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class LogConfig(TypedDict, total=False):
    """LogConfig."""

    Type: str | None


def masked_paths(_paths: Sequence[str], _context: Context) -> Iterator[Denial]:
    """Masks given at all: ``[]`` unmasks everything, and no list can be better than the default."""
    yield _unmasked("HostConfig.MaskedPaths")


def readonly_paths(_paths: Sequence[str], _context: Context) -> Iterator[Denial]:
    """Read-only paths given at all: ``[]`` makes /proc/sys writable."""
    yield _unmasked("HostConfig.ReadonlyPaths")


def stored_masked_paths(paths: Sequence[str], _context: Context) -> Iterator[Denial]:
    """The masks of a stored container, which the daemon filled in: weaker than the default."""
    if not set(paths) >= ALWAYS_MASKED:
        yield _unmasked("HostConfig.MaskedPaths")


def stored_readonly_paths(paths: Sequence[str], _context: Context) -> Iterator[Denial]:
    """The read-only paths of a stored container, which the daemon filled in: weaker than the default."""
    if not set(paths) >= ALWAYS_READ_ONLY:
        yield _unmasked("HostConfig.ReadonlyPaths")


def _unmasked(field: str) -> Denial:
    message = "unmasking paths of /proc and /sys (systempaths=unconfined) is refused on this machine"
    return Denial("unmasked-paths", message, _FIX, field)


def security_options(options: Sequence[str], context: Context) -> Iterator[Denial]:
    """Security options: only those that confine more."""
    for position, option in enumerate(options):
        field = f"HostConfig.SecurityOpt[{position}]"
        # daemon/daemon_unix.go: "=" separates, and ":" where there is no "=".
        name, _, value = option.partition("=" if "=" in option else ":")
        if name == "no-new-privileges" and (not value or value in _TRUTHS or value in _FALSEHOODS):
            continue
        if (name, value) in {("seccomp", "builtin"), ("apparmor", "docker-default")}:
            continue
        if name == "writable-cgroups" and value in _FALSEHOODS:
            continue
        message = f"--security-opt {option[:100]} is refused on this machine"
        if name in {"systempaths", "writable-cgroups"}:
            yield Denial("unmasked-paths", message, _FIX, field)
        else:
            yield relaxable("security-option", message, f"{name}={value}" if value else name, field, context)


def annotations(values: Mapping[str, str | None], _context: Context) -> Iterator[Denial]:
    """Annotations become the OCI runtime's, which obeys some: cdi.k8s.io/… is a device to crun and others."""
    name = next(iter(values))
    yield Denial(
        "annotation",
        f"--annotation {name[:100]} is refused on this machine",
        "Use --label for notes of your own",
        "HostConfig.Annotations",
    )


def cgroup_parent(value: str, _context: Context) -> Iterator[Denial]:
    """A place in the host's cgroup tree."""
    message = f"--cgroup-parent {value[:100]} is refused on this machine"
    yield Denial("annotation", message, "Leave it out", "HostConfig.CgroupParent")


def cgroup(value: str, _context: Context) -> Iterator[Denial]:
    """Another container's cgroup, in versions of long ago."""
    yield Denial(
        "annotation", f"cgroup {value[:100]} is refused on this machine", "Leave it out", "HostConfig.Cgroup"
    )


def log_config(config: LogConfig, context: Context) -> Iterator[Denial]:
    """Log drivers that connect to addresses, sockets of the host among them."""
    driver = config.get("Type")
    if driver and driver not in LOG_DRIVERS:
        message = f"--log-driver {driver[:100]} is refused on this machine"
        yield relaxable(
            "security-option", message, f"log-driver={driver}", "HostConfig.LogConfig.Type", context
        )


def sysctls(values: Mapping[str, str | None], context: Context) -> Iterator[Denial]:
    """Sysctls outside the container's own network and IPC namespaces."""
    for name in values:
        # The kernel takes / for . here, and runc passes the name on.
        plain = "/" not in name and ".." not in name
        if not (plain and (name.startswith(("net.", "fs.mqueue.")) or name in _IPC_SYSCTLS)):
            message = f"--sysctl {name[:100]} is refused on this machine"
            yield relaxable(
                "security-option", message, f"sysctl={name}", f"HostConfig.Sysctls[{name!r}]", context
            )


def storage_options(values: Mapping[str, str | None], context: Context) -> Iterator[Denial]:
    """Options of the storage driver other than a size."""
    for name in values:
        if name != "size":
            message = f"--storage-opt {name[:100]} is refused on this machine"
            yield relaxable(
                "security-option", message, f"storage-opt={name}", "HostConfig.StorageOpt", context
            )


def isolation(value: str, context: Context) -> Iterator[Denial]:
    """Isolation technologies, which only Windows has."""
    if value != "default":
        message = f"--isolation {value[:100]} is refused on this machine"
        yield relaxable("security-option", message, f"isolation={value}", "HostConfig.Isolation", context)

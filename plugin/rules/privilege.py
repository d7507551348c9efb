"""Privileges: the privileged container, the runtime and capabilities."""

from collections.abc import Iterator, Sequence

from plugin.context import Context
from plugin.denial import Denial
from plugin.rules.devices import cdi_form
from plugin.rules.relax import relaxable
from plugin.rules.words import words

# dockerd takes a dotted name for a shim binary on its PATH, without any configuration.
RUNTIMES = frozenset({"runc", "io.containerd.runc.v2"})

DEFAULT_CAPABILITIES = words(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP"
    " SETGID SETPCAP SETUID SYS_CHROOT"
)
# Confined to the container's own processes and memory.
HARMLESS_CAPABILITIES = frozenset({"IPC_LOCK", "SYS_NICE", "SYS_PTRACE", "CHECKPOINT_RESTORE"})
# They weaken the host; a capability that is in none of the three sets reaches the kernel, or may.
HOST_CAPABILITIES = words(
    "AUDIT_CONTROL AUDIT_READ BLOCK_SUSPEND IPC_OWNER LEASE LINUX_IMMUTABLE NET_ADMIN"
    " NET_BROADCAST SYS_PACCT SYS_RESOURCE SYS_TTY_CONFIG WAKE_ALARM"
)


def privileged(_value: bool, context: Context, field: str = "HostConfig.Privileged") -> Iterator[Denial]:
    """A privileged container or exec."""
    yield Denial("privileged", "--privileged is refused on this machine", _leave_out(context), field)


def runtime(name: str, context: Context) -> Iterator[Denial]:
    """A runtime other than runc."""
    if name not in RUNTIMES:
        yield Denial(
            "runtime",
            f"--runtime {name[:100]} is refused on this machine",
            _leave_out(context),
            "HostConfig.Runtime",
        )


def capabilities(names: Sequence[str], context: Context) -> Iterator[Denial]:
    """Capabilities beyond the default set."""
    for position, given in enumerate(names):
        name = given.upper().removeprefix("CAP_")
        field = f"HostConfig.CapAdd[{position}]"
        if name in DEFAULT_CAPABILITIES or name in HARMLESS_CAPABILITIES:
            continue
        message = f"--cap-add {given[:100]} is refused on this machine"
        if name in HOST_CAPABILITIES:
            yield relaxable("extra-capability", message, name, field, context)
        else:
            yield Denial("kernel-capability", message, _leave_out(context), field)


def _leave_out(context: Context) -> str:
    return f"Leave it out; a GPU needs no more than {cdi_form(context)}"

"""The TCP ports on which a process listens, as the kernel has it."""

import contextlib
from pathlib import Path

_LISTEN = "0A"  # TCP_LISTEN in proc_net_tcp(5)


def tcp_ports(pid: int) -> tuple[int, ...]:
    """The ports on which the process `pid` itself accepts connections; none where that is not to be seen."""
    own = _open_files(pid)
    ports = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl local_address rem_address st ... inode is the tenth field.
            fields = line.split()
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in own:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return tuple(sorted(ports))


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):  # the process has ended
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it has closed this one meanwhile
                found.add(str(entry.readlink()))
    return found

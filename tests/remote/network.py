"""Networks of a test's own: an operator, and machines that reach nobody else."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_count = itertools.count()


def ip(*words: str) -> None:
    """Run ``ip``; raises when it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Network:
    """The namespace of the operator, and those of the machines with their addresses."""

    operator: str
    machines: dict[str, str]

    def silence(self, address: str) -> None:
        """Let every packet of the machine vanish, as with a cable pulled behind a switch: nobody is told."""
        for hook in ("input", "output"):
            rules = (
                f"table inet {hook} {{ chain cut {{ type filter hook {hook} priority 0; policy drop; }}; }}"
            )
            subprocess.run(["ip", "netns", "exec", self.machines[address], "nft", rules], check=True)


@contextmanager
def network(machines: int) -> Iterator[Network]:
    """A link from the operator to each of as many machines; gone at the end."""
    prefix = f"rdc{os.getpid()}n{next(_count)}"
    mine = f"{prefix}-operator"
    theirs = {f"198.18.{number}.2": f"{prefix}-m{number}" for number in range(1, machines + 1)}
    try:
        for space in (mine, *theirs.values()):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "dev", "lo", "up")
        for number, (address, space) in enumerate(theirs.items(), 1):
            ip(
                "-n",
                mine,
                "link",
                "add",
                f"m{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                space,
            )
            for name, device, own in ((mine, f"m{number}", f"198.18.{number}.1"), (space, "eth0", address)):
                ip("-n", name, "addr", "add", f"{own}/30", "dev", device)
                ip("-n", name, "link", "set", "dev", device, "up")
        yield Network(mine, theirs)
    finally:
        for space in (mine, *theirs.values()):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

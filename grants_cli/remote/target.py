"""What an operator names from a workstation: ``name[:tag][@machine]``."""

from dataclasses import dataclass

from grants_cli.refs import Ref
from grants_cli.remote.machines import check_name


@dataclass(frozen=True)
class Target:
    """A repository, and the machine it is said to be on; "" where the operator left that out."""

    ref: Ref
    machine: str = ""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """The target that `text` spells; raises `InvalidNameError`, which names the offending character."""
        ref, at, machine = text.partition("@")
        if at:
            check_name(machine)
        return cls(Ref.parse(ref), machine)

    def __str__(self) -> str:
        return f"{self.ref}@{self.machine}" if self.machine else str(self.ref)

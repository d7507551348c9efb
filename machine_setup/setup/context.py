"""What the steps of one set-up share: the machine as it was seen, and what the operator asked for."""

from dataclasses import dataclass, field
from pathlib import Path

from grants_cli.inventory import Inventory
from machine_setup.detect.machine import Machine
from machine_setup.programs import Programs
from machine_setup.setup.options import NVIDIA_REPOSITORY, ToolkitMode
from spec.layout import Layout


@dataclass
class Context:
    """The one thing that steps read from and leave word in for the steps after them."""

    layout: Layout
    programs: Programs
    machine: Machine
    toolkit: ToolkitMode = ToolkitMode.AUTO
    repository: str = NVIDIA_REPOSITORY
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    inventory: Inventory | None = None
    # In a dry run: what earlier steps would have left behind. None: the file would be gone.
    toolkit_would_be_installed: bool = False
    would_be: dict[Path, bytes | None] = field(default_factory=dict)

    @property
    def wants_nvidia(self) -> bool:
        """Whether NVIDIA's devices are to be published: its cards are here, and the operator lets us."""
        return self.toolkit is not ToolkitMode.FALSE and self.machine.has_nvidia

    def exists(self, path: Path) -> bool:
        """Whether `path` is there, or in a dry run would be."""
        return self.would_be[path] is not None if path in self.would_be else path.exists()

"""The step that clears what an interrupted set-up left: temporary files that were never renamed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine_setup.setup.changes import RemoveFile
from machine_setup.setup.context import Context
from machine_setup.setup.keep_current import RULE_PATH, UNIT_PATH
from machine_setup.setup.packages import APT, DNF, ZYPPER
from machine_setup.setup.refresh import ENVIRONMENT_FILE
from machine_setup.setup.steps import Plan
from spec.files import locked_directory


class LeftoversStep:
    """Remove the temporary files of a set-up that was cut off between writing and renaming.

    Only those that are nobody's: set-up's lock is held, and the specs' lock is taken for theirs, which
    ``renet cdi generate`` writes too.
    """

    name = "leftovers"

    def plan(self, context: Context) -> Plan:
        """The removal of each."""
        specs = sorted(context.layout.cdi_dir.glob(".rediacc.io-*.tmp"))
        ours = sorted(path for file in _written(context) for path in file.parent.glob(f".{file.name}.*.tmp"))
        changes = [*map(_RemoveSpec, specs), *map(RemoveFile, ours)]
        return Plan(changes, "of an interrupted set-up" if changes else "none")


@dataclass(frozen=True)
class _RemoveSpec(RemoveFile):
    def apply(self) -> None:
        """Remove it while nobody can be about to rename it."""
        with locked_directory(self.path.parent):
            super().apply()


def _written(context: Context) -> Iterator[Path]:
    yield context.layout.nvidia_spec
    yield context.layout.inventory
    for name in (ENVIRONMENT_FILE, RULE_PATH, UNIT_PATH):
        yield context.layout.root / name
    for manager in (APT, DNF, ZYPPER):
        yield context.layout.root / manager.source
        yield context.layout.root / manager.key

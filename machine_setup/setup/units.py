"""The step that brings the repositories' units to this version, after an upgrade of `renet`."""

from machine_setup.repository import units
from machine_setup.setup.changes import Change, RunProgram, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan


class UnitsStep:
    """Write the units that differ, where there are any. The first repository brings them to a machine."""

    name = "repositories' units"

    def plan(self, context: Context) -> Plan:
        """The unit files that differ, and the gate's restart: systemd keeps its sockets meanwhile."""
        layout = context.layout
        if not (layout.root / "run/systemd/system").is_dir() or not (layout.unit_dir / units.GATE).exists():
            return Plan(found="none")
        files = [WriteFile(path, content) for path, content in units.wanted_files(layout)]
        changes: list[Change] = [file for file in files if file.is_needed]
        if changes and context.programs.find("systemctl"):
            commands = (["systemctl", "daemon-reload"], ["systemctl", "try-restart", units.GATE])
            changes += [RunProgram(context.programs, command) for command in commands]
        return Plan(changes, "to be brought to this version" if changes else "of this version")

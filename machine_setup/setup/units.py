"""The step that brings the repositories' units to this version, after an upgrade of `renet`."""

from machine_setup.repository import units
from machine_setup.setup import systemd
from machine_setup.setup.changes import Change, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan

# A template has no state of its own that systemd could tell.
_ASKABLE = tuple(name for name in units.UNITS if "@" not in name)


class UnitsStep:
    """Write the units that differ, where there are any. The first repository brings them to a machine."""

    name = "repositories' units"

    def plan(self, context: Context) -> Plan:
        """The unit files that differ, and the gate's restart: systemd keeps its sockets meanwhile."""
        layout = context.layout
        if not systemd.runs(layout.root) or not (layout.unit_dir / units.GATE).exists():
            return Plan(found="none")
        files = [WriteFile(path, content) for path, content in units.wanted_files(layout)]
        changes: list[Change] = [file for file in files if file.is_needed]
        differ = bool(changes)
        if differ or not systemd.has_read(context, *_ASKABLE):
            changes += systemd.command(context, "daemon-reload")
        if differ or systemd.runs_older(context, units.GATE):
            changes += systemd.command(context, "try-restart", units.GATE)
        return Plan(changes, "of an older version" if changes else "of this version")

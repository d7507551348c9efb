"""The step that keeps the rediacc.io specs current without us: a udev rule that starts a service.

A rule and no path unit on /dev/dri: systemd does not look at a path while the service that it starts is
running, so the second of two quick changes would be missed. udev reads its rules again by itself when they
change.
"""

from machine_setup.deployed import deployed_file, is_packaged, with_renet
from machine_setup.setup import systemd
from machine_setup.setup.changes import Change, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan

SERVICE = "rediacc-cdi-refresh.service"
UNIT_PATH = f"etc/systemd/system/{SERVICE}"
_ENABLED = f"etc/systemd/system/multi-user.target.wants/{SERVICE}"
RULE_PATH = "etc/udev/rules.d/70-rediacc-cdi.rules"


class KeepCurrentStep:
    """Install the udev rule and the service behind it, and enable the service for boot."""

    name = "keeping specs current"

    def plan(self, context: Context) -> Plan:
        """The files that differ, and what systemd has to be told about them."""
        root = context.layout.root
        if not systemd.runs(root):
            return Plan(
                found="no systemd here",
                warnings=[
                    "The rediacc.io specs do not follow GPUs that come and go: systemd does not run here. "
                    "Run renet cdi generate after such a change"
                ],
            )
        files = [
            WriteFile(root / RULE_PATH, deployed_file("udev/70-rediacc-cdi.rules")),
            WriteFile(
                root / UNIT_PATH,
                with_renet(deployed_file(f"systemd/{SERVICE}"), context.programs),
            ),
        ]
        needed = [file for file in files if file.is_needed and not is_packaged(file.path, file.content)]
        changes: list[Change] = [*needed]
        unit_differs = files[1] in needed
        if unit_differs or not systemd.has_read(context, SERVICE):
            changes += systemd.command(context, "daemon-reload")
        if unit_differs or not (root / _ENABLED).is_symlink():
            changes += systemd.command(context, "enable", SERVICE)
        return Plan(changes, "installed" if not changes else "missing, or not of this version")

"""The step that keeps the rediacc.io specs current without us: a udev rule that starts a service.

A rule and no path unit on /dev/dri: systemd does not look at a path while the service that it starts is
running, so the second of two quick changes would be missed. udev reads its rules again by itself when they
change.
"""

from pathlib import Path

from machine_setup.deployed import deployed_file, with_renet
from machine_setup.setup.changes import Change, RunProgram, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan

SERVICE = "rediacc-cdi-refresh.service"
UNIT_PATH = f"etc/systemd/system/{SERVICE}"
RULE_PATH = "etc/udev/rules.d/70-rediacc-cdi.rules"


class KeepCurrentStep:
    """Install the udev rule and the service behind it, and enable the service for boot."""

    name = "keeping specs current"

    def plan(self, context: Context) -> Plan:
        """The files that differ, and what systemd has to be told about them."""
        root = context.layout.root
        if not (root / "run/systemd/system").is_dir():
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
        changes: list[Change] = [file for file in files if file.is_needed]
        unit_differs = files[1].is_needed
        if unit_differs or not self._is_loaded(context):
            changes += self._systemctl(context, "daemon-reload")
        if unit_differs or not self._is_enabled(root):
            changes += self._systemctl(context, "enable", SERVICE)
        return Plan(changes, "installed" if not changes else "missing, or not of this version")

    @staticmethod
    def _is_loaded(context: Context) -> bool:
        """Whether systemd has read the unit as it is: a set-up may have been cut off before it was told."""
        if context.programs.find("systemctl") is None:
            return True
        shown = context.programs.run(["systemctl", "show", "--property=LoadState,NeedDaemonReload", SERVICE])
        return {"LoadState=loaded", "NeedDaemonReload=no"} <= set(shown.stdout.split())

    @staticmethod
    def _is_enabled(root: Path) -> bool:
        return (root / "etc/systemd/system/multi-user.target.wants" / SERVICE).is_symlink()

    @staticmethod
    def _systemctl(context: Context, *words: str) -> list[Change]:
        if context.programs.find("systemctl") is None:
            return []
        return [RunProgram(context.programs, ["systemctl", *words])]

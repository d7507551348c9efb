"""The step that sees to NVIDIA's Container Toolkit: used as it is, installed, or replaced when too old."""

import re
from dataclasses import dataclass

from machine_setup.programs import Programs
from machine_setup.setup.context import Context
from machine_setup.setup.options import ToolkitMode
from machine_setup.setup.packages import BASE_PACKAGE, install_changes, package_manager
from machine_setup.setup.steps import Plan
from spec.errors import CommandFailedError

# Older hooks let a container's image run code as root on the host (CVE-2025-23266, CVE-2025-23267).
OLDEST = (1, 17, 8)
OLDEST_TEXT = ".".join(map(str, OLDEST))

_VERSION = re.compile(r"version (\d+)\.(\d+)\.(\d+)(\S*)")


@dataclass(frozen=True)
class Toolkit:
    """The toolkit as it is on the machine. `version` is None when it does not say a version that we know."""

    installed: bool
    version: str | None = None
    numbers: tuple[int, ...] = ()

    @property
    def is_too_old(self) -> bool:
        """Whether it must be replaced; a version that cannot be read (a build of one's own) is trusted."""
        return self.installed and bool(self.numbers) and self.numbers < OLDEST


def installed_toolkit(programs: Programs) -> Toolkit:
    """Ask the machine's nvidia-ctk; one that does not run counts as not installed."""
    if programs.find("nvidia-ctk") is None:
        return Toolkit(False)
    try:
        finished = programs.check(["nvidia-ctk", "--version"])
    except CommandFailedError:
        return Toolkit(False)
    match = _VERSION.search(finished.stdout)
    if match is None:
        return Toolkit(True)
    return Toolkit(True, ".".join(match.groups()[:3]) + match[4], tuple(map(int, match.groups()[:3])))


class ToolkitStep:
    """Install or update NVIDIA's Container Toolkit, where it is wanted."""

    name = "NVIDIA Container Toolkit"

    def plan(self, context: Context) -> Plan:
        """The installation, or why there is none. Raises `CommandFailedError` without a package manager."""
        toolkit = installed_toolkit(context.programs)
        said = (
            f"{toolkit.version or 'a build of its own'} is installed"
            if toolkit.installed
            else "not installed"
        )
        if context.toolkit is ToolkitMode.FALSE:
            return Plan(found=f"{said}; left alone, as asked")
        if context.toolkit is ToolkitMode.AUTO and not context.machine.has_nvidia:
            return Plan(found=f"{said}; not needed without an NVIDIA GPU")
        if toolkit.installed and not toolkit.is_too_old:
            return Plan(found=said)
        if not context.programs.any:
            return Plan(found=f"{said}; programs are not run below another root")
        manager = package_manager(context.layout.root, context.programs)
        if manager is None:
            raise CommandFailedError(
                "NVIDIA's Container Toolkit is missing, and this machine has none of apt-get, dnf and zypper",
                _advice(),
            )
        context.toolkit_would_be_installed = context.dry_run
        return Plan(
            install_changes(manager, context.layout.root, context.programs, context.repository),
            f"{said}, and {OLDEST_TEXT} or newer is needed (CVE-2025-23266)" if toolkit.installed else said,
            advice=_advice(),
        )


def _advice() -> str:
    return (
        f"bring {BASE_PACKAGE} {OLDEST_TEXT} or newer onto the machine (from a mirror or as a file: "
        "it depends on nothing else), then run renet setup again; --nvidia-repository names a mirror"
    )

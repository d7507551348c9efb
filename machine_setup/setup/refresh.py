"""The steps that make nvidia-cdi-refresh keep *our* file current, and nothing shadow it.

The toolkit's service (1.18 and newer) writes /var/run/cdi/nvidia.yaml when a driver or the toolkit changes.
Repositories' daemons read /etc/cdi only, and other engines let /var/run/cdi win over it. The service's
environment file redirects it; an ``Environment=`` drop-in would lose to that file.
"""

from pathlib import Path

from machine_setup.setup.changes import Change, RemoveFile, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.options import ToolkitMode
from machine_setup.setup.steps import Plan

ENVIRONMENT_FILE = "etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
RUNTIME_SPEC = "var/run/cdi/nvidia.yaml"
OUTPUT_VARIABLE = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"

_TARGET = "/etc/cdi/nvidia.yaml"
_OURS = "# By renet setup: repositories' daemons read /etc/cdi only."
_UNIT_DIRECTORIES = ("usr/lib/systemd/system", "lib/systemd/system", "etc/systemd/system")


class RefreshStep:
    """Point nvidia-cdi-refresh at /etc/cdi/nvidia.yaml, and keep every other setting of it."""

    name = "nvidia-cdi-refresh"

    def plan(self, context: Context) -> Plan:
        """The new environment file; back to how it was where NVIDIA's devices are not wanted."""
        path = context.layout.root / ENVIRONMENT_FILE
        text = _text(path)
        if not context.wants_nvidia:
            if context.toolkit is ToolkitMode.FALSE and _OURS in text.splitlines():
                return Plan([WriteFile(path, _encoded(_undirected(text)))], "back to its default")
            return Plan(found="not needed")
        if not has_refresh_unit(context.layout.root) and not context.toolkit_would_be_installed:
            return Plan(
                found="this toolkit does not have it",
                warnings=[
                    "Nothing renews /etc/cdi/nvidia.yaml after a driver upgrade: this toolkit has no "
                    "nvidia-cdi-refresh (1.18 and newer do). Run renet setup after each driver upgrade"
                ],
            )
        present = settings(text).get(OUTPUT_VARIABLE)
        if present == _TARGET:
            return Plan(found=f"writes {_TARGET}")
        return Plan(
            [WriteFile(path, _encoded(_directed(text)))],
            f"writes {present}" if present else "writes its default, /var/run/cdi/nvidia.yaml",
        )


class ShadowStep:
    """Remove what nvidia-cdi-refresh wrote before: until reboot it would win over /etc/cdi."""

    name = "shadowing spec"

    def plan(self, context: Context) -> Plan:
        """Remove /var/run/cdi/nvidia.yaml, as soon as /etc/cdi has the spec."""
        shadow = context.layout.root / RUNTIME_SPEC
        if not context.wants_nvidia or not shadow.exists():
            return Plan(found="none")
        if not context.exists(context.layout.nvidia_spec):
            return Plan(found=f"{shadow} stays while there is no {_TARGET}")
        changes: list[Change] = [RemoveFile(shadow)]
        return Plan(changes, f"{shadow} would win over {_TARGET}")


def has_refresh_unit(root: Path) -> bool:
    """Whether the machine has nvidia-cdi-refresh.service."""
    return any((root / directory / "nvidia-cdi-refresh.service").exists() for directory in _UNIT_DIRECTORIES)


def redirects_to_us(root: Path) -> bool:
    """Whether set-up pointed nvidia-cdi-refresh at /etc/cdi/nvidia.yaml: that file is not the operator's."""
    return _OURS in _text(root / ENVIRONMENT_FILE).splitlines()


def generator_settings(root: Path) -> dict[str, str]:
    """What the operator set for nvidia-ctk in the service's file: set-up generates what the service does."""
    named = settings(_text(root / ENVIRONMENT_FILE))
    return {
        key: value for key, value in named.items() if key.startswith("NVIDIA_") and key != OUTPUT_VARIABLE
    }


def settings(text: str) -> dict[str, str]:
    """The assignments of a systemd environment file; the last of a name wins."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", ";")):
            found[key.strip()] = value.strip().strip("\"'")
    return found


def _directed(text: str) -> str:
    return _undirected(text) + f"{_OURS}\n{OUTPUT_VARIABLE}={_TARGET}\n"


def _undirected(text: str) -> str:
    """`text` without any assignment of the output, and without our comment."""
    kept = [line for line in text.splitlines() if line != _OURS and OUTPUT_VARIABLE not in settings(line)]
    return "".join(f"{line}\n" for line in kept)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")

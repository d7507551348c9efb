"""Whether a repository's daemon leaves builds a way past the gate."""

from collections.abc import Mapping
from typing import cast

from spec.registry import Registry

#: BuildKit's entitlements that must be off. `device` is on by default from 29.0.
ENTITLEMENTS = ("device", "security-insecure")
#: A device with it is given to every build, with every entitlement closed (seen on 28.5).
AUTO_ALLOW = "org.mobyproject.buildkit.device.autoallow"


def build_problem(settings: Mapping[str, object], specs: Registry) -> str:
    """What leaves builds open, as the end of a sentence; empty where nothing does."""
    builder = settings.get("builder")
    entitlements = builder.get("entitlements") if isinstance(builder, dict) else None
    closed = cast("Mapping[str, object]", entitlements if isinstance(entitlements, dict) else {})
    for name in ENTITLEMENTS:
        if closed.get(name) is not False:
            return f"its daemon.json does not set builder.entitlements.{name} to false"
    for file in specs.files:
        annotated = [file.spec.annotations, *(device.annotations for device in file.spec.devices)]
        if any(AUTO_ALLOW in annotations for annotations in annotated):
            return f"the CDI spec {file.path} carries the annotation {AUTO_ALLOW}"
    return ""

"""Whether a repository's daemon leaves builds a way past the gate."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from spec.registry import SUFFIXES

#: BuildKit's entitlements that must be off. `device` is on by default from 29.0.
ENTITLEMENTS = ("device", "security-insecure")
#: A device with it is given to every build, with every entitlement closed (seen on 28.5).
AUTO_ALLOW = "org.mobyproject.buildkit.device.autoallow"


def build_problem(settings: Mapping[str, object], directories: Iterable[Path]) -> str:
    """What leaves builds open, as the end of a sentence; empty where nothing does.

    `directories` are those whose specs the daemon reads. A spec is looked at as text: engines differ in which
    specs they take for valid.
    """
    builder = settings.get("builder")
    entitlements = builder.get("entitlements") if isinstance(builder, dict) else None
    closed = cast("Mapping[str, object]", entitlements if isinstance(entitlements, dict) else {})
    for name in ENTITLEMENTS:
        if closed.get(name) is not False:
            return f"its daemon.json does not set builder.entitlements.{name} to false"
    for path in (path for directory in directories for path in sorted(directory.glob("*"))):
        try:
            if path.suffix in SUFFIXES and path.is_file() and AUTO_ALLOW.encode() in path.read_bytes():
                return f"the CDI spec {path} carries the annotation {AUTO_ALLOW}"
        except OSError as error:
            return f"the CDI spec {path} cannot be read: {error.strerror}"
    return ""

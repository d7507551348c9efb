"""The view of the machine's specs that one repository's daemon reads: the granted devices and nothing else.

It is the second lock: what slips past the gate asks the engine for a device, and the engine knows none but
these. Each spec file becomes one file of the view, cut down to the granted devices and without annotations,
by which a spec could offer its devices to builds unasked.
"""

import contextlib
import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from spec.files import sync_directory
from spec.model import Device, Spec
from spec.registry import Registry
from spec.writer import write_spec


def cut(registry: Registry, granted: Collection[str]) -> dict[str, Spec]:
    """The specs of the view of `granted`, by file name. A name that nothing defines brings nothing."""
    chosen: dict[Path, list[Device]] = {}
    sources: dict[Path, Spec] = {}
    for name in sorted(granted):
        injection = registry.devices.get(name)
        if injection is None:
            continue
        chosen.setdefault(injection.file.path, []).append(injection.device)
        sources[injection.file.path] = injection.file.spec
    return {
        _file_name(path): replace(
            sources[path],
            annotations={},
            devices=tuple(replace(device, annotations={}) for device in devices),
        )
        for path, devices in chosen.items()
    }


def _file_name(path: Path) -> str:
    # nvidia.yaml and nvidia.json may stand beside each other: the digest keeps their views apart.
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    return f"{path.stem.lstrip('.')}-{digest}.yaml"


def write(directory: Path, specs: Mapping[str, Spec]) -> bool:
    """Let `directory` hold exactly `specs`; whether anything had to change.

    Each file is replaced by a rename or removed, which dockerd notices at once; the directory itself stays,
    for a daemon has it mounted. Files go before others come, so no device is ever in two of them.
    Raises `OSError`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stale = [entry for entry in directory.iterdir() if entry.name not in specs]
    for entry in stale:
        with contextlib.suppress(FileNotFoundError):
            entry.unlink()
    if stale:
        sync_directory(directory)
    changed = [name for name, spec in specs.items() if write_spec(directory / name, spec)]
    return bool(stale or changed)

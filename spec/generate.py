"""Bringing our specs up to date with the machine."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spec.errors import StorageError
from spec.files import locked_directory
from spec.generated import AMD_KIND, DRI_KIND, IDENTITY, amd_spec, dri_spec, render_group
from spec.layout import Layout
from spec.model import Spec
from spec.reader import InvalidSpecError, read_spec
from spec.topology import Topology, read_topology
from spec.writer import encode_spec, holds, remove_spec, write_spec


@dataclass(frozen=True, slots=True)
class Renumbered:
    """A name that has come to mean another card: who holds a grant for it holds it for that card now."""

    name: str
    before: dict[str, str]
    now: dict[str, str]

    def __str__(self) -> str:
        return f"{self.name} was {_identity_text(self.before)} and is now {_identity_text(self.now)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one spec.

    `action` is ``written``, ``unchanged``, ``removed`` (its last device is gone) or ``absent`` (there is
    no such device, and was no spec). `content` is what its file holds then, and empty without one.
    """

    kind: str
    path: Path
    action: str
    names: tuple[str, ...]
    content: bytes = b""
    renumbered: tuple[Renumbered, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """What one generation did, or with `dry_run` would do."""

    topology: Topology
    outcomes: tuple[Outcome, ...]

    @property
    def renumbered(self) -> tuple[Renumbered, ...]:
        """All names that have come to mean another card."""
        return tuple(change for outcome in self.outcomes for change in outcome.renumbered)


def generate(layout: Layout, dry_run: bool = False, directory: Path | None = None) -> Generation:
    """Make the specs ``rediacc.io/dri`` and ``rediacc.io/amd`` say what the machine has now.

    They are in `directory`, by default the machine's ``/etc/cdi``. Nothing is written when nothing has
    changed; a spec whose last device is gone is removed. With `dry_run` nothing is written at all. Of two
    generations at once the later one looks at the machine when the earlier one has written. Raises
    `StorageError`.
    """
    where = directory or layout.cdi_dir
    try:
        with contextlib.nullcontext() if dry_run else locked_directory(where):
            return _generate(layout, where, dry_run)
    except OSError as error:
        raise StorageError(
            f"the specs in {where} cannot be written: {error.strerror}", "run it as root"
        ) from error


def _generate(layout: Layout, where: Path, dry_run: bool) -> Generation:
    topology = read_topology(layout.root)
    gid = render_group(layout.root)
    specs = {DRI_KIND: dri_spec(topology, gid), AMD_KIND: amd_spec(topology, gid)}
    outcomes = [
        _bring(where / f"{kind.replace('/', '-')}.yaml", kind, spec, dry_run) for kind, spec in specs.items()
    ]
    return Generation(topology, tuple(outcomes))


def _bring(path: Path, kind: str, spec: Spec | None, dry_run: bool) -> Outcome:
    if spec is None:
        there = path.is_symlink() or path.exists() if dry_run else remove_spec(path)
        return Outcome(kind, path, "removed" if there else "absent", ())
    renumbered, content = _renumbered(path, spec), encode_spec(spec)
    changed = not holds(path, content) if dry_run else write_spec(path, spec)
    action = "written" if changed else "unchanged"
    return Outcome(kind, path, action, spec.qualified_names(), content, renumbered)


def _renumbered(path: Path, spec: Spec) -> tuple[Renumbered, ...]:
    """The names of `spec` that meant another card in the file at `path`."""
    try:
        before = {device.name: _identity(device.annotations) for device in read_spec(path).devices}
    except InvalidSpecError:
        return ()
    return tuple(
        Renumbered(f"{spec.kind}={device.name}", before[device.name], now)
        for device in spec.devices
        if device.name in before
        if (now := _identity(device.annotations)) != before[device.name]
    )


def _identity(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in IDENTITY if key in annotations}


def _identity_text(identity: dict[str, str]) -> str:
    return " ".join(identity.values()) or "of no known card"

"""All devices that the specs of some directories define, by the engine's rules.

The rules are those of the reference library's cache (``pkg/cdi/cache.go``), version 1.1.0:

- files whose names end in exactly ``.yaml`` or ``.json`` count, hidden ones too, subdirectories not;
- a symlink to a file is followed, one in place of a directory is not;
- an invalid file is skipped, and the others count;
- a device in a later directory wins over the same in an earlier one;
- a device in two files of one directory is none at all, even where a later directory has it once.
"""

import difflib
import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spec.errors import NotFoundError
from spec.model import ContainerEdits, Device, Spec
from spec.names import QualifiedName
from spec.problems import Problem
from spec.reader import InvalidSpecError, read_spec

SUFFIXES = (".yaml", ".json")
# A file that was written less than this before we read it may be written again without its times
# changing: the kernel's clock for them ticks every few milliseconds.
_SETTLED_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A valid spec and the file that it came from."""

    path: Path
    spec: Spec


@dataclass(frozen=True, slots=True)
class Injection:
    """What a container gets by naming one device."""

    name: str
    file: SpecFile
    device: Device

    @property
    def device_edits(self) -> ContainerEdits:
        """The device's own edits: what tells it from the other devices of its spec."""
        return self.device.edits

    @property
    def common_edits(self) -> ContainerEdits:
        """The edits that every device of the spec brings."""
        return self.file.spec.edits

    @property
    def edits(self) -> ContainerEdits:
        """Everything, in the engine's order: the file's edits and then the device's."""
        return self.common_edits.then(self.device_edits)


@dataclass(frozen=True, slots=True)
class Registry:
    """The devices of one moment. Values do not change; read again to see what has changed."""

    devices: dict[str, Injection] = field(default_factory=dict)
    files: tuple[SpecFile, ...] = ()
    errors: tuple[Problem, ...] = ()
    conflicts: dict[str, tuple[Path, ...]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The qualified names of all devices, sorted."""
        return tuple(sorted(self.devices))

    def __contains__(self, name: object) -> bool:
        return name in self.devices

    def resolve(self, name: str | QualifiedName) -> Injection:
        """What `name` injects; raises `NotFoundError` that names the near misses."""
        injection = self.devices.get(str(name))
        if injection is not None:
            return injection
        if str(name) in self.conflicts:
            files = ", ".join(str(path) for path in self.conflicts[str(name)])
            raise NotFoundError(
                f"{name} resolves to nothing: several spec files define it",
                f"remove it from all but one of {files}",
            )
        near = self.near(str(name))
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "`renet cdi list` shows the devices of this machine"
        )
        raise NotFoundError(f"no spec on this machine defines {name}", hint)

    def near(self, name: str, most: int = 3) -> tuple[str, ...]:
        """The names of devices that look like `name`, the most similar first."""
        return tuple(difflib.get_close_matches(name, self.devices, most, 0.6))


def read(directories: Iterable[Path | str]) -> Registry:
    """The devices that the specs in `directories` define, the earliest directory first.

    Never raises for what is in them: an unreadable directory or file, an invalid spec and a conflict are
    in the registry's `errors`. A directory that does not exist is as an empty one.
    """
    return CachedRegistry(directories).current()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one reading of a file gave, and the state of the file then."""

    state: tuple[int, ...]
    settled: bool
    result: SpecFile | tuple[Problem, ...]


class CachedRegistry:
    """A registry that follows its directories: each look re-reads only the files that changed.

    Costs one listing of every directory and one stat of every file. The gate and the commands share it.
    """

    def __init__(self, directories: Iterable[Path | str]) -> None:
        self.directories = tuple(Path(os.path.normpath(directory)) for directory in directories)
        self._loaded: dict[Path, _Loaded] = {}
        self._listed: list[list[Path]] = []
        self._registry: Registry | None = None

    def current(self) -> Registry:
        """The devices as they are now; the very same object while nothing has changed."""
        errors: list[Problem] = []
        listed = [_spec_files(directory, errors) for directory in self.directories]
        loaded = {path: self._load(path) for paths in listed for path in paths}
        same = listed == self._listed and all(loaded[path] is self._loaded.get(path) for path in loaded)
        if self._registry is None or not same or errors:
            self._registry = _combine(listed, loaded, errors)
        self._listed, self._loaded = listed, loaded
        return self._registry

    def _load(self, path: Path) -> _Loaded:
        before = _state(path)
        known = self._loaded.get(path)
        if known is not None and known.settled and known.state == before:
            return known
        result: SpecFile | tuple[Problem, ...]
        try:
            result = SpecFile(path, read_spec(path))
        except InvalidSpecError as error:
            result = error.problems
        # Changed while it was read: the next look reads it again.
        settled = before == _state(path) and time.time_ns() - max(before[3:], default=0) > _SETTLED_NS
        return _Loaded(before, settled, result)


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _spec_files(directory: Path, errors: list[Problem]) -> list[Path]:
    """The spec files of one directory, in the order of their names' bytes, as Go's filepath.Walk has it."""
    try:
        if not stat.S_ISDIR(directory.lstat().st_mode):
            return [directory] if directory.name.endswith(SUFFIXES) else []
        with os.scandir(directory) as found:
            names = [
                entry.name
                for entry in found
                if entry.name.endswith(SUFFIXES) and not entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        errors.append(Problem("unreadable", f"cannot be read: {error.strerror}", "", file=directory))
        return []
    return [directory / name for name in sorted(names, key=os.fsencode)]


def _combine(
    listed: Sequence[Sequence[Path]], loaded: dict[Path, _Loaded], errors: list[Problem]
) -> Registry:
    devices: dict[str, tuple[int, Injection]] = {}
    conflicts: dict[str, list[Path]] = {}
    files: list[SpecFile] = []
    for priority, paths in enumerate(listed):
        for path in paths:
            result = loaded[path].result
            if isinstance(result, SpecFile):
                files.append(result)
                _add(result, priority, devices, conflicts)
            else:
                errors.extend(result)
    for name, clashing in conflicts.items():
        del devices[name]
        for path in clashing:
            others = ", ".join(str(other) for other in clashing if other != path)
            errors.append(
                Problem("conflict", f"{name} is also in {others}", "so it resolves to nothing", file=path)
            )
    return Registry(
        {name: injection for name, (_, injection) in devices.items()},
        tuple(files),
        tuple(errors),
        {name: tuple(clashing) for name, clashing in conflicts.items()},
    )


def _add(
    file: SpecFile,
    priority: int,
    devices: dict[str, tuple[int, Injection]],
    conflicts: dict[str, list[Path]],
) -> None:
    for device in file.spec.devices:
        name = f"{file.spec.kind}={device.name}"
        injection = Injection(name, file, device)
        known = devices.get(name)
        if known is None or priority > known[0]:
            devices[name] = (priority, injection)
            continue
        clashing = conflicts.setdefault(name, [known[1].file.path])
        if file.path not in clashing:
            clashing.append(file.path)

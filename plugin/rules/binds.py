"""Binds and mounts of a container: what of the host it sees."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from plugin.context import Context, PathQuery, Place
from plugin.denial import Denial, unreadable
from plugin.rules.paths import clean, is_hardware, is_plain, judge_path
from plugin.rules.volumes import DRIVERS, MAX_OPTIONS, VOLUME_NAME, named_volumes, volume
from plugin.rules.words import words

# volume/mounts/linux_parser.go: what may stand in the third part of a bind.
_MODES = words("ro rw z Z nocopy private rprivate slave rslave consistent cached delegated default")
_SHARED = frozenset({"shared", "rshared"})
_PROPAGATION = frozenset({"", "private", "rprivate", "slave", "rslave"})
_MOUNT_TYPES = frozenset({"bind", "volume", "tmpfs", "image"})
_TMPFS_FLAGS = words(
    "rw ro exec noexec suid nosuid dev nodev sync async dirsync atime noatime diratime"
    " nodiratime relatime norelatime strictatime nostrictatime"
)
_TMPFS_VALUES = words("size mode uid gid nr_inodes nr_blocks mpol")

Bind = tuple[str, bool, str]
"""The source, whether it is read-only, and the field that names it."""


class DriverConfig(TypedDict, total=False):
    """VolumeOptions.DriverConfig."""

    Name: str | None
    Options: dict[str, str | None] | None


class VolumeOptions(TypedDict, total=False):
    """Mounts[].VolumeOptions."""

    DriverConfig: DriverConfig | None


class BindOptions(TypedDict, total=False):
    """Mounts[].BindOptions."""

    Propagation: str | None


class TmpfsOptions(TypedDict, total=False):
    """Mounts[].TmpfsOptions."""

    Options: list[list[str]] | None


class Mount(TypedDict, total=False):
    """An entry of Mounts."""

    Type: str | None
    Source: str | None
    ReadOnly: bool | None
    BindOptions: BindOptions | None
    VolumeOptions: VolumeOptions | None
    TmpfsOptions: TmpfsOptions | None


def binds(entries: Sequence[str], context: Context) -> Iterator[Denial]:
    """Binds: ``source:target[:mode]``, where a source without a leading slash is a volume's name."""
    paths: list[Bind] = []
    volumes: list[tuple[str, str]] = []
    for position, entry in enumerate(entries):
        field = f"HostConfig.Binds[{position}]"
        parts = entry.split(":")
        modes = set(parts[2].split(",")) if len(parts) == 3 else set()
        if len(parts) == 1:
            continue  # an anonymous volume
        if modes & _SHARED:
            yield shared(field)
        elif len(parts) > 3 or modes - _MODES or not parts[0]:
            yield unreadable(f"{entry[:200]!r} is not source:target[:mode]", field).denial
        elif parts[0].startswith("/"):
            paths.append((parts[0], "ro" in modes, field))
        else:
            volumes.append((parts[0], field))
    yield from host_paths(paths, context)
    yield from _volumes(volumes, context)


def mounts(entries: Sequence[Mount], context: Context) -> Iterator[Denial]:
    """Mounts, by type."""
    paths: list[Bind] = []
    volumes: list[tuple[str, str]] = []
    for position, entry in enumerate(entries):
        field = f"HostConfig.Mounts[{position}]"
        kind, source = entry.get("Type"), entry.get("Source") or ""
        if kind not in _MOUNT_TYPES:
            yield _refused(f"a mount of type {str(kind or 'none')[:100]}", f"{field}.Type")
        elif kind == "bind":
            if ((entry.get("BindOptions") or {}).get("Propagation") or "") not in _PROPAGATION:
                yield shared(f"{field}.BindOptions.Propagation")
            paths.append((source, bool(entry.get("ReadOnly")), f"{field}.Source"))
        elif kind == "volume":
            config = (entry.get("VolumeOptions") or {}).get("DriverConfig") or {}
            place = f"{field}.VolumeOptions.DriverConfig"
            fields = (f"{place}.Name", f"{place}.Options")
            yield from volume(config.get("Name"), config.get("Options"), fields, context)
            if source:
                volumes.append((source, f"{field}.Source"))
        elif kind == "tmpfs":
            for option in (entry.get("TmpfsOptions") or {}).get("Options") or []:
                yield from tmpfs_options("=".join(option), f"{field}.TmpfsOptions.Options")
    yield from host_paths(paths, context)
    yield from _volumes(volumes, context)


def tmpfs(entries: Mapping[str, str | None], _context: Context) -> Iterator[Denial]:
    """Tmpfs: a target with options."""
    for target, options in entries.items():
        field = f"HostConfig.Tmpfs[{target!r}]"
        for option in (options or "").split(",", MAX_OPTIONS):
            yield from tmpfs_options(option, field)


def tmpfs_options(option: str, field: str) -> Iterator[Denial]:
    """An option of a tmpfs: ``bind`` would be taken for one, and is not."""
    if option and option not in _TMPFS_FLAGS and option.partition("=")[0] not in _TMPFS_VALUES:
        yield _refused(f"the tmpfs option {option[:100]}", field)


def volume_driver(name: str, _context: Context) -> Iterator[Denial]:
    """The driver of volumes that come to be with the container."""
    if name not in DRIVERS:
        yield _refused(f"the volume driver {name[:100]}", "HostConfig.VolumeDriver")


def host_paths(entries: Sequence[Bind], context: Context) -> Iterator[Denial]:
    """Sources on the host: where they lead is asked of the kernel, all in one round."""
    asked: list[Bind] = []
    for source, read_only, field in entries:
        if not is_plain(source):
            yield unreadable(f"the source {source[:200]!r} is not an absolute path", field).denial
        elif is_hardware(clean(source)):
            # Wherever it leads: /proc/1/root is a link that nobody but the kernel can follow.
            yield from judge_path(clean(source), Place(clean(source)), read_only, field, context)
        else:
            asked.append((clean(source), read_only, field))
    context.require([PathQuery(path) for path, _, _ in asked])
    for path, read_only, field in asked:
        place = context.answer(PathQuery(path))
        if isinstance(place, Place):
            yield from judge_path(path, place, read_only, field, context)
        else:
            yield unreadable(f"{path[:200]} cannot be looked at", field).denial


def _volumes(entries: list[tuple[str, str]], context: Context) -> Iterator[Denial]:
    for name, field in entries:
        if not VOLUME_NAME.fullmatch(name):
            yield unreadable(f"{name[:200]!r} is neither an absolute path nor a volume's name", field).denial
    yield from named_volumes([entry for entry in entries if VOLUME_NAME.fullmatch(entry[0])], context)


def shared(field: str) -> Denial:
    """The denial of shared propagation: mounts made in the container would appear on the host."""
    return _refused("shared mount propagation", field)


def _refused(what: str, field: str) -> Denial:
    fix = "Use a plain volume, tmpfs, or a bind of an ordinary directory"
    return Denial("raw-mount", f"{what} is refused on this machine", fix, field)

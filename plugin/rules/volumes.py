"""Volumes: what the local driver mounts, by the options that a volume carries.

The driver hands `type`, `device` and `o` to mount(2) as root in the daemon's namespace. ``bind`` among the
options makes the kernel ignore the type and bind `device`, whatever the type says.
"""

import re
from collections.abc import Iterator, Mapping

from plugin.context import Absent, Context, PathQuery, Place, VolumeQuery
from plugin.context import Volume as StoredVolume
from plugin.denial import Denial
from plugin.rules.paths import clean, is_plain, judge_path
from plugin.rules.words import words

VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
DRIVERS = frozenset({"", "local"})
OPTIONS = frozenset({"type", "o", "device", "size"})

# More than a mount(2) can be told in its page; what is behind them is no option that anybody knows.
MAX_OPTIONS = 200

_FLAGS = words(
    "defaults ro rw exec noexec suid nosuid dev nodev sync async dirsync atime noatime diratime"
    " nodiratime relatime norelatime strictatime mand nomand"
)
_BIND = frozenset({"bind", "rbind"})
_PRIVATE = frozenset({"private", "rprivate", "slave", "rslave"})
# What each type of file system may be told, as ``key=value`` or alone.
FILE_SYSTEMS: Mapping[str, frozenset[str]] = {
    "tmpfs": words("size mode uid gid nr_inodes nr_blocks huge"),
    "nfs": words(
        "addr clientaddr mountaddr mounthost mountport mountproto mountvers port proto vers nfsvers"
        " v3 v4 v4.0 v4.1 v4.2 minorversion tcp udp rdma rsize wsize bsize namlen timeo retrans"
        " retry soft softerr hard intr nointr lock nolock local_lock cto nocto ac noac acregmin"
        " acregmax acdirmin acdirmax actimeo sec acl noacl sharecache nosharecache resvport"
        " noresvport lookupcache migration nomigration fsc nofsc nconnect max_connect rdirplus"
        " nordirplus fg bg posix noposix"
    ),
    "cifs": words(
        "addr ip unc username user password pass domain dom workgroup sec vers uid gid forceuid"
        " noforceuid forcegid noforcegid file_mode dir_mode iocharset port servern netbiosname"
        " serverino noserverino nobrl perm noperm cache rsize wsize soft hard mfsymlinks mapposix"
        " mapchars nomapchars nocase guest seal sign nounix actimeo echo_interval nosharesock"
        " prefixpath cifsacl intr nointr"
    ),
}
_ALIASES = {"nfs4": "nfs", "smb3": "cifs"}


def volume(
    driver: str | None,
    options: Mapping[str, str | None] | None,
    fields: tuple[str, str],
    context: Context,
) -> Iterator[Denial]:
    """A volume with this driver and these options, to be made or made already; `fields` name the two."""
    if (driver or "") not in DRIVERS:
        yield _refused(f"the volume driver {driver}", fields[0])
        return
    field = fields[1]
    given = {name: value or "" for name, value in (options or {}).items()}
    if not any(given.values()):
        return
    if unknown := set(given) - OPTIONS:
        yield _refused(f"the volume option {min(unknown)}", field)
        return
    flags = given["o"].split(",", MAX_OPTIONS) if given.get("o") else []
    if _BIND & set(flags):
        yield from _bind(given.get("device", ""), flags, field, context)
    elif given.get("type") or given.get("device") or flags:
        yield from _mount(given, flags, field)


def _bind(device: str, flags: list[str], field: str, context: Context) -> Iterator[Denial]:
    for flag in flags:
        if flag not in _BIND | _PRIVATE | _FLAGS:
            yield _refused(f"the volume option o={flag}", field)
            return
    if not is_plain(device):
        yield _refused(f"a bind of {device[:200]!r}", field)
        return
    # mount(2) takes the path as it stands: ".." after a link leaves where the link leads. PathQuery follows
    # that.
    query = PathQuery(device)
    place = context.answer(query)
    if not isinstance(place, Place):
        yield _refused(f"a bind of {device[:200]}, which the gate cannot look at,", field)
        return
    yield from judge_path(clean(device), place, False, field, context)


def _mount(options: Mapping[str, str], flags: list[str], field: str) -> Iterator[Denial]:
    kind = options.get("type", "")
    allowed = FILE_SYSTEMS.get(_ALIASES.get(kind, kind))
    if allowed is None:
        yield _refused(f"a volume of type {kind[:100] or 'none'}", field)
        return
    for flag in flags:
        if flag not in _FLAGS and flag.partition("=")[0] not in allowed:
            yield _refused(f"the volume option o={flag[:100]}", field)
            return


def _refused(what: str, field: str) -> Denial:
    return Denial(
        "raw-mount",
        f"{what[:300]} is refused on this machine",
        "Use a plain volume, tmpfs, NFS, CIFS, or a bind of an ordinary directory",
        field,
    )


def named_volumes(names: list[tuple[str, str]], context: Context) -> Iterator[Denial]:
    """Volumes that exist, by (name, field): the daemon says what they mount."""
    context.require([VolumeQuery(name) for name, _ in names])
    stored = [(name, field, context.answer(VolumeQuery(name))) for name, field in names]
    devices = [
        PathQuery(answer.options["device"])
        for _, _, answer in stored
        if isinstance(answer, StoredVolume)
        and _BIND & set(answer.options.get("o", "").split(",", MAX_OPTIONS))
        and is_plain(answer.options.get("device", ""))
    ]
    context.require(devices)
    for name, field, answer in stored:
        if isinstance(answer, StoredVolume):
            yield from volume(answer.driver, answer.options, (field, field), context)
        elif not isinstance(answer, Absent):
            yield _refused(f"the volume {name}, of which the daemon says nothing,", field)

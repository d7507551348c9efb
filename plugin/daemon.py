"""Asking a repository's own daemon, over its API socket."""

import http.client
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import quote

from plugin import kernel
from plugin.context import Absent, Answer, Container, Unanswered, Volume

#: How long one question may take. dockerd answers these from memory; a daemon that does not is not well.
TIMEOUT = 5.0
#: A container's description holds the body that made it (4 MiB at most) about twice.
LARGEST_ANSWER = 32 * 2**20

_ID_PREFIX = re.compile(r"[0-9a-f]{1,63}")


class DaemonError(Exception):
    """The daemon does not answer, or not as the Docker API says."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class DaemonClient:
    """One conversation with the daemon behind `path`; closed with the ``with`` block.

    Its questions pass the gate themselves, as any client's do: they are plain reads, which it allows at once.
    """

    def __init__(self, path: Path) -> None:
        self._connection = _Connection(path)

    def __enter__(self) -> "DaemonClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def container(self, ref: str) -> Answer:
        """The stored container that the daemon takes `ref` for."""
        try:
            found = self._get(f"/containers/{quote(ref, safe='')}/json")
            if found is None:
                return Absent()
            stored = stored_container(found)
            return replace(stored, others=self._others(ref, stored.id))
        except (DaemonError, KeyError, TypeError, AttributeError) as error:
            return Unanswered(repr(error))

    def volume(self, name: str) -> Answer:
        """The volume of this name."""
        try:
            found = self._get(f"/volumes/{quote(name, safe='')}")
            if found is None:
                return Absent()
            options = cast("dict[str, str]", found.get("Options") or {})
            return Volume(str(found["Driver"]), {str(key): str(value) for key, value in options.items()})
        except (DaemonError, KeyError, TypeError, AttributeError) as error:
            return Unanswered(repr(error))

    def _others(self, ref: str, identity: str) -> tuple[str, ...]:
        """Containers whose id begins with `ref`, where `ref` is another's name.

        Names win over beginnings of ids. Were the named one renamed between our look and dockerd's, the
        request would reach one of these.
        """
        if not _ID_PREFIX.fullmatch(ref) or identity.startswith(ref):
            return ()
        listed = self._json("/containers/json?all=1")
        identities = [str(entry["Id"]) for entry in cast("list[dict[str, object]]", listed)]
        return tuple(other for other in identities if other.startswith(ref) and other != identity)

    def _get(self, target: str) -> dict[str, object] | None:
        found = self._json(target)
        if found is not None and not isinstance(found, dict):
            raise DaemonError(f"{target} is no object")
        return cast("dict[str, object] | None", found)

    def _json(self, target: str) -> object:
        try:
            self._connection.request("GET", target)
            response = self._connection.getresponse()
            content = response.read(LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise DaemonError(f"{target}: {error!r}") from error
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK or len(content) > LARGEST_ANSWER:
            raise DaemonError(f"{target}: status {response.status}, {len(content)} bytes")
        try:
            answer: object = json.loads(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise DaemonError(f"{target}: {error!r}") from error
        return answer


def stored_container(description: Mapping[str, object]) -> Container:
    """The container that the daemon describes so (``GET /containers/{name}/json``).

    Raises `KeyError`, `TypeError` or `AttributeError` where that is no description of one.
    """
    mounts = cast("list[dict[str, object]]", description.get("Mounts") or [])
    return Container(
        str(description["Id"]),
        _as_asked(description["HostConfig"]),
        tuple(str(mount["Name"]) for mount in mounts if mount.get("Type") == "volume"),
        tuple(
            (str(mount["Source"]), mount.get("RW") is False)
            for mount in mounts
            if mount.get("Type") == "bind"
        ),
    )


def _as_asked(stored: object) -> dict[str, object]:
    """A stored HostConfig without what the daemon itself has filled in and a client may not ask for.

    Under cgroup v1 its default for the cgroup namespace is the host's (moby's DefaultCgroupV1NamespaceMode).
    """
    config = dict(cast("dict[str, object]", stored))
    if config.get("CgroupnsMode") == "host" and not kernel.has_unified_cgroups():
        del config["CgroupnsMode"]
    return config

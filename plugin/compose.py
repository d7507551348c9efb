"""Compose files as the requests that Docker Compose makes of them, as far as the gate judges them.

Each field of a request remembers the key of the file that it comes from, so that a denial can name it and the
file be corrected there.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from plugin.decide import Request
from spec.errors import UsageError

Key = tuple[str | int, ...]
Document = dict[str, object]

_CDI_NAME = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[\w.:-]+", re.ASCII)
_TIMEOUT = 20.0


@dataclass(frozen=True)
class Question:
    """One request to judge. `keys` leads from its fields to the keys of the file."""

    what: str
    request: Request
    keys: Mapping[str, Key] = field(default_factory=dict)

    def key_of(self, place: str) -> Key:
        """The key that the field `place` comes from: that of the longest field above it; none if unknown."""
        found = max((known for known in self.keys if place.startswith(known)), key=len, default="")
        return self.keys.get(found, ())


def load(text: str, directory: Path) -> Document:
    """The Compose file `text`, whose relative paths start at `directory`.

    Read by ``docker compose config`` where there is one, which resolves variables, profiles and extensions.
    Raises `UsageError` where it is no Compose file.
    """
    resolved = _by_docker(text, directory)
    if resolved is not None:
        return resolved
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise UsageError("this is neither JSON nor a Compose file", problem) from error
    if not isinstance(document, dict) or not isinstance(document.get("services"), dict):
        raise UsageError(
            "this is neither a create body, a recorded request, a container nor a Compose file",
            "give it a file of docker compose, the JSON body of a create, or what docker inspect prints",
        )
    return document


def _by_docker(text: str, directory: Path) -> Document | None:
    docker = shutil.which("docker")
    if docker is None:
        return None
    command = [
        docker,
        "compose",
        "-f",
        "-",
        "--project-directory",
        str(directory),
        "config",
        "--format",
        "json",
    ]
    try:
        done = subprocess.run(
            command, check=False, input=text.encode(), capture_output=True, timeout=_TIMEOUT
        )
        document = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return document if isinstance(document, dict) and document.get("services") else None


def questions(document: Document, directory: Path) -> Iterator[Question]:
    """The requests that Compose makes of `document`."""
    for name, volume in _items(document, "volumes"):
        if not volume.get("external"):
            body = {
                "Name": name,
                "Driver": volume.get("driver"),
                "DriverOpts": _texts(volume.get("driver_opts")),
            }
            keys: dict[str, Key] = {
                "Driver": ("volumes", name, "driver"),
                "DriverOpts": ("volumes", name, "driver_opts"),
            }
            yield Question(f"volume {name}", _post("/volumes/create", body), keys)
    for name, network in _items(document, "networks"):
        if not network.get("external"):
            body = {"Name": name, "Driver": network.get("driver")}
            yield Question(
                f"network {name}", _post("/networks/create", body), {"Driver": ("networks", name, "driver")}
            )
    for name, service in _items(document, "services"):
        yield from _service(name, service, directory)


def _service(name: str, service: Document, directory: Path) -> Iterator[Question]:
    base: Key = ("services", name)
    if service.get("build"):
        yield Question(f"build of {name}", Request("POST", "/build?version=1", None), {"": (*base, "build")})
    made = _HostConfig(base)
    made.fill(service, directory)
    body = {"Image": service.get("image") or "image", "HostConfig": made.fields}
    yield Question(f"service {name}", _post(f"/containers/create?name={name}", body), made.keys)
    for hook in ("post_start", "pre_stop"):
        for position, entry in enumerate(_list(service.get(hook))):
            if isinstance(entry, dict) and entry.get("privileged"):
                key = (*base, hook, position, "privileged")
                request = _post(f"/containers/{name}/exec", {"Privileged": True})
                yield Question(f"{hook} of {name}", request, {"Privileged": key})


# Keys of a service that become a field of HostConfig as they are.
_PLAIN = {
    "annotations": "Annotations",
    "cap_add": "CapAdd",
    "cgroup": "CgroupnsMode",
    "cgroup_parent": "CgroupParent",
    "device_cgroup_rules": "DeviceCgroupRules",
    "ipc": "IpcMode",
    "isolation": "Isolation",
    "network_mode": "NetworkMode",
    "pid": "PidMode",
    "privileged": "Privileged",
    "runtime": "Runtime",
    "security_opt": "SecurityOpt",
    "storage_opt": "StorageOpt",
    "sysctls": "Sysctls",
    "userns_mode": "UsernsMode",
    "uts": "UTSMode",
    "volumes_from": "VolumesFrom",
}
_MAPS = {"annotations", "storage_opt", "sysctls"}


class _HostConfig:
    """The HostConfig of one service, and where its fields come from."""

    def __init__(self, base: Key) -> None:
        self._base = base
        self.fields: dict[str, object] = {}
        self.keys: dict[str, Key] = {}

    def fill(self, service: Document, directory: Path) -> None:
        for key, name in _PLAIN.items():
            value = service.get(key)
            if value not in (None, "", [], {}):
                self._set(name, _texts(value) if key in _MAPS else value, (key,))
        logging = service.get("logging")
        if isinstance(logging, dict) and logging.get("driver"):
            self._set("LogConfig", {"Type": logging["driver"]}, ("logging",))
        for position, device in enumerate(_list(service.get("devices"))):
            self._device(device, ("devices", position))
        for position, _ in enumerate(_list(service.get("gpus"))):
            self._gpus(("gpus", position) if isinstance(service["gpus"], list) else ("gpus",))
        reserved: Key = ("deploy", "resources", "reservations", "devices")
        for position, _ in enumerate(_list(_at(service, reserved))):
            self._gpus((*reserved, position))
        for position, volume in enumerate(_list(service.get("volumes"))):
            self._volume(volume, ("volumes", position), directory)
        for position, target in enumerate(_list(service.get("tmpfs"))):
            path, _, options = str(target).partition(":")
            tmpfs = cast("dict[str, str]", self.fields.setdefault("Tmpfs", {}))
            tmpfs[path] = options
            self.keys[f"HostConfig.Tmpfs[{path!r}]"] = (*self._base, "tmpfs", position)

    def _set(self, name: str, value: object, key: Key) -> None:
        self.fields[name] = value
        self.keys[f"HostConfig.{name}"] = (*self._base, *key)

    def _append(self, name: str, value: object, key: Key) -> None:
        entries = cast("list[object]", self.fields.setdefault(name, []))
        self.keys[f"HostConfig.{name}[{len(entries)}]"] = (*self._base, *key)
        entries.append(value)

    def _device(self, device: object, key: Key) -> None:
        source = str(device.get("source")) if isinstance(device, dict) else str(device)
        # Compose splits the short form at colons before it looks for a CDI name.
        path = source if isinstance(device, dict) else source.split(":")[0]
        if _CDI_NAME.fullmatch(path):
            self._append("DeviceRequests", {"Driver": "cdi", "DeviceIDs": [path]}, key)
        else:
            self._append("Devices", {"PathOnHost": path}, key)

    def _gpus(self, key: Key) -> None:
        self._append("DeviceRequests", {"Count": -1, "Capabilities": [["gpu"]]}, key)

    def _volume(self, volume: object, key: Key, directory: Path) -> None:
        if not isinstance(volume, dict):
            source, _, rest = str(volume).partition(":")
            if rest and source.startswith(("/", ".", "~")):
                place = os.path.normpath(directory / Path(source).expanduser())
                self._append("Binds", f"{place}:{rest}", key)
            elif rest:
                self._append("Binds", f"{source}:{rest}", key)
            return
        kind, source = volume.get("type"), str(volume.get("source") or "")
        mount: Document = {
            "Type": kind,
            "Target": volume.get("target"),
            "ReadOnly": bool(volume.get("read_only")),
        }
        if kind == "bind":
            mount["Source"] = os.path.normpath(directory / Path(source).expanduser())
            propagation = _at(volume, ("bind", "propagation"))
            mount["BindOptions"] = {"Propagation": propagation} if propagation else None
        elif kind == "volume":
            mount["Source"] = source
        self._append("Mounts", mount, key)


def _post(target: str, body: Mapping[str, object]) -> Request:
    return Request("POST", target, json.dumps(body).encode())


def _items(document: Document, key: str) -> Iterator[tuple[str, Document]]:
    found = document.get(key)
    for name, entry in (found if isinstance(found, dict) else {}).items():
        yield str(name), entry if isinstance(entry, dict) else {}


def _list(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _at(document: object, key: Key) -> object:
    for part in key:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _texts(value: object) -> dict[str, str]:
    if isinstance(value, list):
        value = dict(str(entry).partition("=")[::2] for entry in value)
    return {str(name): str(entry) for name, entry in value.items()} if isinstance(value, dict) else {}

"""Writing specs: the same spec is the same bytes, and nothing is written when nothing has changed.

A reader, dockerd included, sees the old file or the new one. dockerd re-reads its directories on a rename
within them and on a removal, which is how a spec arrives here and goes.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from spec.errors import RediaccError
from spec.files import replace_file, sync_directory
from spec.model import ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec
from spec.reader import InvalidSpecError, parse_spec, read_bounded

SCHEMA_ID = "urn:rediacc:cdi-spec:1"
_HEADER = f"""\
# Written by renet, which replaces changes made here. JSON schema: {SCHEMA_ID} (`renet cdi schema`).
"""


class UnwritableSpecError(RediaccError):
    """A spec that its reader would not read back as it is: nothing was written."""

    code = "invalid-spec"


class _Text(str):
    """Text that is quoted: unquoted, the engine would take ``0`` for a number and ``y`` for true."""

    __slots__ = ()


class _Dumper(yaml.CSafeDumper):
    pass


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Dumper.add_representer(_Text, _represent)


def encode_spec(spec: Spec) -> bytes:
    """`spec` as YAML: every text quoted, fields in the specification's order, empty ones left out.

    Raises `UnwritableSpecError` for a spec that `spec.reader` would refuse or read otherwise.
    """
    document = _without_empty(
        {
            "cdiVersion": _Text(spec.version),
            "kind": _Text(spec.kind),
            "annotations": _annotations(spec.annotations),
            "devices": [_device(device) for device in spec.devices],
            "containerEdits": edits_document(spec.edits),
        }
    )
    text = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=2**31 - 1, encoding=None
    )
    data = (_HEADER + text).encode()
    try:
        same = parse_spec(data) == spec
    except InvalidSpecError as error:
        raise UnwritableSpecError(f"this is no valid spec: {error.message}") from error
    if not same:
        raise UnwritableSpecError("a reader would understand this spec differently")
    return data


def write_spec(path: Path, spec: Spec) -> bool:
    """Make `path` hold `spec`; whether that changed anything.

    The file is world-readable (0644) and appears in one step. Raises `UnwritableSpecError` and `OSError`.
    """
    data = encode_spec(spec)
    if holds(path, data):
        return False
    replace_file(path, data)
    return True


def remove_spec(path: Path) -> bool:
    """Remove the spec at `path`; whether there was one. Raises `OSError`."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    sync_directory(path.parent)
    return True


def holds(path: Path, data: bytes) -> bool:
    """Whether `path` is a file of exactly these bytes."""
    try:
        return not path.is_symlink() and read_bounded(path) == data
    except (OSError, InvalidSpecError):
        return False


def _without_empty(fields: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value not in (None, "", [], {}, False)}


def _annotations(annotations: Mapping[str, str]) -> dict[_Text, _Text]:
    return {_Text(key): _Text(annotations[key]) for key in sorted(annotations)}


def _texts(texts: tuple[str, ...]) -> list[_Text]:
    return [_Text(text) for text in texts]


def _device(device: Device) -> dict[str, object]:
    return _without_empty(
        {
            "name": _Text(device.name),
            "annotations": _annotations(device.annotations),
            "containerEdits": edits_document(device.edits),
        }
    )


def edits_document(edits: ContainerEdits) -> dict[str, object]:
    """`edits` as a spec writes them: the specification's field names, empty ones left out."""
    fields = _without_empty(
        {
            "env": _texts(edits.env),
            "deviceNodes": [_device_node(node) for node in edits.device_nodes],
            "mounts": [_mount(mount) for mount in edits.mounts],
            "hooks": [_hook(hook) for hook in edits.hooks],
            "additionalGids": list(edits.additional_gids),
            "netDevices": [_net_device(device) for device in edits.net_devices],
        }
    )
    if edits.intel_rdt is not None:
        # Present and empty is not the same as absent: it makes a container its own class.
        fields["intelRdt"] = _intel_rdt(edits.intel_rdt)
    return fields


def _device_node(node: DeviceNode) -> dict[str, object]:
    numbers = {
        "major": node.major,
        "minor": node.minor,
        "fileMode": node.file_mode,
        "uid": node.uid,
        "gid": node.gid,
    }
    return {
        **_without_empty(
            {
                "path": _Text(node.path),
                "hostPath": _Text(node.host_path),
                "type": _Text(node.type),
                "permissions": _Text(node.permissions),
            }
        ),
        **{key: value for key, value in numbers.items() if value is not None},
    }


def _mount(mount: Mount) -> dict[str, object]:
    return _without_empty(
        {
            "hostPath": _Text(mount.host_path),
            "containerPath": _Text(mount.container_path),
            "options": _texts(mount.options),
            "type": _Text(mount.type),
        }
    )


def _hook(hook: Hook) -> dict[str, object]:
    fields = _without_empty(
        {
            "hookName": _Text(hook.name),
            "path": _Text(hook.path),
            "args": _texts(hook.args),
            "env": _texts(hook.env),
        }
    )
    return fields if hook.timeout is None else {**fields, "timeout": hook.timeout}


def _intel_rdt(rdt: IntelRdt) -> dict[str, object]:
    fields = _without_empty(
        {
            "closID": _Text(rdt.clos_id),
            "l3CacheSchema": _Text(rdt.l3_cache_schema),
            "memBwSchema": _Text(rdt.mem_bw_schema),
            "enableMonitoring": rdt.enable_monitoring,
        }
    )
    return fields if rdt.schemata is None else {**fields, "schemata": _texts(rdt.schemata)}


def _net_device(device: NetDevice) -> dict[str, object]:
    return {"hostInterfaceName": _Text(device.host_interface_name), "name": _Text(device.name)}

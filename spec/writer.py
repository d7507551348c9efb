"""A `Spec` -> the bytes of its file, as JSON, which every engine reads as the YAML it is."""

import json
from collections.abc import Mapping

from spec.model import ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec

Value = object


def encode_spec(spec: Spec) -> bytes:
    """The file that says what `spec` does; the same spec gives the same bytes."""
    document = _given(
        cdiVersion=spec.version,
        kind=spec.kind,
        annotations=dict(spec.annotations),
        devices=[_device(device) for device in spec.devices],
        containerEdits=_edits(spec.edits),
    )
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"


def _given(**fields: Value) -> Mapping[str, Value]:
    return {key: value for key, value in fields.items() if value not in (None, "", [], {}, False)}


def _device(device: Device) -> Value:
    return _given(name=device.name, annotations=dict(device.annotations), containerEdits=_edits(device.edits))


def _edits(edits: ContainerEdits) -> Value:
    document = _given(
        env=list(edits.env),
        deviceNodes=[_node(node) for node in edits.device_nodes],
        mounts=[_mount(mount) for mount in edits.mounts],
        hooks=[_hook(hook) for hook in edits.hooks],
        additionalGids=list(edits.additional_gids),
        netDevices=[_net(device) for device in edits.net_devices],
    )
    return document if edits.intel_rdt is None else {**document, "intelRdt": _rdt(edits.intel_rdt)}


def _node(node: DeviceNode) -> Value:
    numbers = {
        "major": node.major,
        "minor": node.minor,
        "fileMode": node.file_mode,
        "uid": node.uid,
        "gid": node.gid,
    }
    text = _given(path=node.path, hostPath=node.host_path, type=node.type, permissions=node.permissions)
    # 0 is a number like any other here: minor 0 and root's uid are given.
    return {**text, **{key: number for key, number in numbers.items() if number is not None}}


def _mount(mount: Mount) -> Value:
    return _given(
        hostPath=mount.host_path,
        containerPath=mount.container_path,
        options=list(mount.options),
        type=mount.type,
    )


def _hook(hook: Hook) -> Value:
    document = _given(hookName=hook.name, path=hook.path, args=list(hook.args), env=list(hook.env))
    return document if hook.timeout is None else {**document, "timeout": hook.timeout}


def _rdt(rdt: IntelRdt) -> Value:
    document = _given(
        closID=rdt.clos_id,
        l3CacheSchema=rdt.l3_cache_schema,
        memBwSchema=rdt.mem_bw_schema,
        enableMonitoring=rdt.enable_monitoring,
    )
    return document if rdt.schemata is None else {**document, "schemata": list(rdt.schemata)}


def _net(device: NetDevice) -> Value:
    return _given(hostInterfaceName=device.host_interface_name, name=device.name)

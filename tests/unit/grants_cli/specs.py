"""CDI specs for a machine of a test's own."""

from collections.abc import Mapping, Sequence

import yaml

from spec.layout import Layout

#: A machine with two NVIDIA cards, each known by its index, its UUID and with the other as `all`.
NVIDIA = {
    "0": ["/dev/nvidia0"],
    "1": ["/dev/nvidia1"],
    "GPU-aaaaaaaa-0000": ["/dev/nvidia0"],
    "GPU-bbbbbbbb-1111": ["/dev/nvidia1"],
    "all": ["/dev/nvidia0", "/dev/nvidia1"],
}
CONTROL = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"]


def write_spec(
    layout: Layout,
    kind: str,
    devices: Mapping[str, Sequence[str | Mapping[str, object]]],
    common: Sequence[str] = (),
) -> None:
    """Write a spec of `kind` whose devices inject the nodes that are given, by path or in full."""
    layout.cdi_dir.mkdir(parents=True, exist_ok=True)
    document = {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "devices": [
            {"name": name, "containerEdits": _edits(nodes) or {"env": [f"DEVICE={name}"]}}
            for name, nodes in devices.items()
        ],
        **({"containerEdits": _edits(common)} if common else {}),
    }
    path = layout.cdi_dir / f"{kind.replace('/', '-')}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")


def _edits(nodes: Sequence[str | Mapping[str, object]]) -> dict[str, object]:
    named = [{"path": node} if isinstance(node, str) else dict(node) for node in nodes]
    return {"deviceNodes": named} if named else {}

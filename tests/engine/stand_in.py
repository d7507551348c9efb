"""CDI specs whose devices stand in for GPUs on a machine that has none.

The nodes are real and harmless, and no container can open them unless they are injected: they are not among
the devices that runc allows to every container, as it does /dev/null.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engine.refusal import Refusal

CANDIDATES = ("/dev/fuse", "/dev/kmsg", "/dev/loop-control", "/dev/kvm")
KIND = "nvidia.com/gpu"


@dataclass(frozen=True)
class Node:
    """A device node in the container, and the host's node that it really is."""

    path: str
    host_path: str

    @property
    def numbers(self) -> tuple[int, int]:
        """Major and minor of the host's node."""
        device = Path(self.host_path).stat().st_rdev
        return os.major(device), os.minor(device)


def host_nodes() -> list[str]:
    """The nodes of this machine that can stand in. Raises `Refusal` where it has fewer than two."""
    found = [path for path in CANDIDATES if Path(path).is_char_device()]
    if len(found) < 2:
        raise Refusal(f"this machine has fewer than two of {', '.join(CANDIDATES)} to stand in for GPUs")
    return found


def gpu_nodes() -> tuple[Node, Node]:
    """Two GPUs' nodes, ``/dev/nvidia0`` and ``/dev/nvidia1`` in the container."""
    first, second = host_nodes()[:2]
    return Node("/dev/nvidia0", first), Node("/dev/nvidia1", second)


def write_gpus(directory: Path) -> None:
    """Writes nvidia.yaml with the devices ``nvidia.com/gpu=0``, ``=1`` and ``=all``."""
    zero, one = gpu_nodes()
    write_spec(directory / "nvidia.yaml", KIND, {"0": [zero], "1": [one], "all": [zero, one]})


def write_spec(path: Path, kind: str, devices: Mapping[str, Sequence[Node]]) -> None:
    """Writes one spec file and renames it into place: dockerd re-reads on rename, not on creation."""
    spec = {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": [
            {
                "name": name,
                "containerEdits": {
                    "deviceNodes": [{"path": node.path, "hostPath": node.host_path} for node in nodes]
                },
            }
            for name, nodes in devices.items()
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(spec, indent=2))
    temporary.rename(path)

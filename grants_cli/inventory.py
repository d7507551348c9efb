"""The inventory: the machine's GPUs and devices, as set-up recorded them."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, cast

from grants_cli.documents import VERSION, Kind, encode, read_document
from grants_cli.times import from_text, to_text
from spec.errors import UntrustedError
from spec.layout import Layout


class GpuRecord(TypedDict):
    """A GPU as the file has it; `memoryMiB` in units of 1,048,576 bytes."""

    index: int
    vendor: str
    name: str
    pciAddress: str | None
    uuid: str | None
    memoryMiB: int | None
    driver: str | None
    driverVersion: str | None
    renderNode: str | None
    cardNode: str | None
    devices: list[str]


class DeviceRecord(TypedDict):
    """A device that a spec of the machine defines: its qualified name, the spec's path, its nodes' paths."""

    name: str
    spec: str
    nodes: list[str]


class ToolkitRecord(TypedDict):
    """NVIDIA's Container Toolkit, as set-up found it."""

    installed: bool
    version: str | None


@dataclass(frozen=True)
class Inventory:
    """What a machine has. `generated_at` is when set-up last found it different, in UTC to the second."""

    generated_at: datetime
    hostname: str
    platform: str
    gpus: tuple[GpuRecord, ...]
    devices: tuple[DeviceRecord, ...]
    toolkit: ToolkitRecord
    warnings: tuple[str, ...] = ()

    def to_document(self) -> dict[str, object]:
        """The inventory as the file has it."""
        return {
            "version": VERSION,
            "generatedAt": to_text(self.generated_at),
            "hostname": self.hostname,
            "platform": self.platform,
            "gpus": list(self.gpus),
            "devices": list(self.devices),
            "toolkit": self.toolkit,
            "warnings": list(self.warnings),
        }

    def encode(self) -> bytes:
        """The file's content; raises `UntrustedError` rather than state what the schema does not allow."""
        return encode(self.to_document(), Kind.INVENTORY)

    def cards_of(self, device: str) -> tuple[str, ...]:
        """The PCI addresses of the GPUs that the name `device` injects, in order."""
        gpus = (gpu for gpu in self.gpus if device in gpu["devices"])
        return tuple(gpu["pciAddress"] for gpu in gpus if gpu["pciAddress"] is not None)


def read_inventory(layout: Layout) -> Inventory | None:
    """The machine's inventory, or None before the first set-up. Raises `UntrustedError`."""
    try:
        document = read_document(layout.inventory, Kind.INVENTORY)
    except UntrustedError as error:
        raise UntrustedError(error.message, f"move {layout.inventory} away and run renet setup") from error
    if document is None:
        return None
    return Inventory(
        from_text(cast(str, document["generatedAt"])),
        cast(str, document["hostname"]),
        cast(str, document["platform"]),
        tuple(cast(list[GpuRecord], document["gpus"])),
        tuple(cast(list[DeviceRecord], document["devices"])),
        cast(ToolkitRecord, document["toolkit"]),
        tuple(cast(list[str], document["warnings"])),
    )

"""The steps that record what set-up found: the inventory, and what has become of granted devices."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grants_cli.devices import Devices
from grants_cli.inventory import DeviceRecord, GpuRecord, Inventory, ToolkitRecord, read_inventory
from grants_cli.store import read_grants, read_register
from grants_cli.times import utc_now
from machine_setup.detect.gpu import Gpu
from machine_setup.setup.changes import WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan
from machine_setup.setup.toolkit import installed_toolkit
from spec import registry


class InventoryStep:
    """Write inventory.json, where the machine is no longer what it says."""

    name = "inventory"

    def plan(self, context: Context) -> Plan:
        """The new inventory. Raises `UntrustedError` for a damaged one: it is not overwritten."""
        recorded = read_inventory(context.layout)
        current = take_inventory(context)
        if recorded is not None and replace(current, generated_at=recorded.generated_at) == recorded:
            context.inventory = recorded
            return Plan(found="current")
        context.inventory = current
        return Plan(
            [WriteFile(context.layout.inventory, current.encode())],
            "differs from the machine" if recorded else "missing",
        )


class GrantsStep:
    """Name the grants whose device is gone or has become another card. Grants themselves are left alone."""

    name = "grants"

    def plan(self, context: Context) -> Plan:
        """Warnings only. Raises `UntrustedError` when the grants cannot be read."""
        grants, register = read_grants(context.layout), read_register(context.layout)
        devices, now = Devices(context.layout), utc_now()
        warnings = []
        live = [(guid, grant) for guid in grants.by_guid for grant in grants.of(guid) if grant.is_live(now)]
        for guid, grant in live:
            repository = register.by_guid.get(guid)
            ref = str(repository.ref) if repository else guid
            if grant.device not in devices:
                warnings.append(
                    f"{ref} holds a grant for {grant.device}, which this machine no longer has. "
                    f"Revoke it: renet gpu revoke {ref} --device {grant.device}"
                )
            elif lost := set(grant.cards) - set(devices.cards(grant.device)):
                warnings.append(
                    f"{ref} was granted {grant.device} when it was the card at {', '.join(sorted(lost))}; "
                    f"it has become {' and '.join(devices.cards(grant.device)) or 'another'}. "
                    f"If that is not meant: renet gpu revoke {ref} --device {grant.device}"
                )
        return Plan(found=f"{len(live)} live", warnings=warnings)


@contextlib.contextmanager
def _spec_directory(context: Context) -> Iterator[Path]:
    """The directory of specs; in a dry run a copy of it, with what would be different."""
    if not context.would_be:
        yield context.layout.cdi_dir
        return
    with tempfile.TemporaryDirectory(prefix="renet-setup-") as copy:
        present = {path: path.read_bytes() for path in context.layout.cdi_dir.glob("*") if path.is_file()}
        for path, content in {**present, **context.would_be}.items():
            if path.parent == context.layout.cdi_dir and content:
                Path(copy, path.name).write_bytes(content)
        yield Path(copy)


def take_inventory(context: Context) -> Inventory:
    """The inventory as it would be written now."""
    with _spec_directory(context) as directory:
        specs = registry.read([directory])
    devices = []
    for name in specs.names():
        injection = specs.resolve(name)
        nodes = dict.fromkeys(node.source for node in injection.edits.device_nodes)
        spec = context.layout.cdi_dir / injection.file.path.name
        devices.append(DeviceRecord(name=name, spec=str(spec), nodes=list(nodes)))
    toolkit = installed_toolkit(context.programs)
    return Inventory(
        utc_now(),
        context.machine.hostname,
        context.machine.platform.value,
        tuple(_record(index, gpu, devices) for index, gpu in enumerate(context.machine.gpus)),
        tuple(devices),
        ToolkitRecord(installed=toolkit.installed, version=toolkit.version),
        tuple(
            dict.fromkeys([*context.warnings, *(f"{problem}. It does not count" for problem in specs.errors)])
        ),
    )


def _record(index: int, gpu: Gpu, devices: list[DeviceRecord]) -> GpuRecord:
    return GpuRecord(
        index=index,
        vendor=gpu.vendor,
        name=gpu.name,
        pciAddress=gpu.address,
        uuid=gpu.uuid,
        memoryMiB=gpu.memory_mib,
        driver=gpu.driver,
        driverVersion=gpu.driver_version,
        renderNode=gpu.render_node,
        cardNode=gpu.card_node,
        devices=[device["name"] for device in devices if gpu.nodes.intersection(device["nodes"])],
    )

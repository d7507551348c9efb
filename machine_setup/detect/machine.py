"""The machine as set-up sees it: its GPUs, and what keeps one from being used, with the next step."""

from dataclasses import dataclass
from pathlib import Path

from machine_setup.detect import nvidia, nvidia_smi
from machine_setup.detect.faults import card_fault
from machine_setup.detect.gpu import Gpu
from machine_setup.detect.nvidia_smi import SmiAnswer, SmiGpu
from machine_setup.detect.pci import product_names
from machine_setup.detect.platform import Platform, has_wsl_nvidia, platform
from machine_setup.programs import Programs
from spec.sysfs import PciIdentity, RenderNode, address_key, read_text
from spec.topology import PciGpu, Topology, read_topology

# Without the vendor's name these say nothing to a person.
_BRANDS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "virtio": "Virtio"}
# Render nodes with no hardware behind them: devices, but no GPUs. vgem's device has its name and no driver.
_SOFTWARE = frozenset({"vgem", "vkms"})
# A card that is handed to a virtual machine is not this machine's.
_SET_ASIDE = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})
_WSL_NODE = "/dev/dxg"
_ACCELERATOR = 0x12


@dataclass(frozen=True)
class Machine:
    """What was found. `warnings` are sentences: what is wrong, and the next step."""

    platform: Platform = Platform.NATIVE
    hostname: str = ""
    gpus: tuple[Gpu, ...] = ()
    warnings: tuple[str, ...] = ()
    has_nvidia: bool = False
    nvidia_driver_loaded: bool = False


def detect(root: Path, programs: Programs) -> Machine:
    """Look at the machine below `root`, and ask those of its `programs` that add something.

    Never raises for what a machine holds: what cannot be read is a warning, or unknown.
    """
    where = platform(root)
    wsl = where is Platform.WSL
    topology = read_topology(root)
    has_nvidia = has_wsl_nvidia(root) if wsl else bool(_own_nvidia(topology))
    loaded = has_wsl_nvidia(root) if wsl else nvidia.driver_is_loaded(root)
    answer = nvidia_smi.ask(root, programs, wsl=wsl) if has_nvidia and loaded else None
    looker = _Looker(root, topology, answer)
    gpus = [*looker.cards(), *looker.platform_gpus(), *(_wsl_gpus(answer) if wsl and has_nvidia else ())]
    warnings = [
        *topology.warnings,
        *looker.warnings,
        *_nvidia_warnings(root, programs, answer, wsl=wsl, wanted=has_nvidia),
    ]
    return Machine(
        where,
        read_text(root / "proc/sys/kernel/hostname") or "",
        tuple(gpus),
        tuple(dict.fromkeys(warnings)),
        has_nvidia,
        loaded,
    )


def _own_nvidia(topology: Topology) -> list[PciIdentity]:
    return [
        display.identity
        for display in topology.pci_gpus
        if display.identity.vendor_name == "nvidia" and display.driver not in _SET_ASIDE
    ]


def _is_gpu(device: PciGpu) -> bool:
    """Whether a device without a render node is a GPU all the same.

    Other vendors' displays are servers' consoles, and Intel's processing accelerators are NPUs.
    """
    vendor = device.identity.vendor_name
    accelerator = device.class_code >> 16 == _ACCELERATOR
    return vendor in {"nvidia", "amd"} or (vendor == "intel" and not accelerator)


class _Looker:
    """Puts the parts of each card together."""

    def __init__(self, root: Path, topology: Topology, answer: SmiAnswer | None) -> None:
        self._root = root
        self._topology = topology
        self._smi = {gpu.address: gpu for gpu in answer.gpus} if answer else {}
        self._proc = nvidia.proc_gpus(root)
        self._names = product_names(root, (display.identity for display in topology.pci_gpus))
        self._compute = {card.identity.address: card for card in topology.amd_cards}
        self.warnings: list[str] = []

    def cards(self) -> list[Gpu]:
        """The cards on the PCI bus, in the order of addresses."""
        gpus = []
        for display in self._topology.pci_gpus:
            nodes = self._render_nodes(display.identity.address)
            if not nodes and not _is_gpu(display):
                continue
            driver = (nodes[0].driver if nodes else None) or display.driver
            gpu = self._gpu(display.identity, driver, nodes)
            gpus.append(gpu)
            self.warnings += card_fault(
                gpu,
                self._root,
                set_aside=driver in _SET_ASIDE,
                minor=self._minor(gpu.address),
                computes=gpu.address in self._compute,
            )
        return gpus

    def platform_gpus(self) -> list[Gpu]:
        """GPUs that are on no PCI bus, as those of boards are; the partitions of a card are that card's."""
        partitions = {node.minor for card in self._topology.amd_cards for node in card.nodes}
        return [
            self._gpu(node.identity, node.driver, (node,))
            for node in self._topology.render_nodes
            if node.identity.address is None and node.minor not in partitions
            if _SOFTWARE.isdisjoint({node.driver, node.parent})
        ]

    def _render_nodes(self, address: str | None) -> tuple[RenderNode, ...]:
        own = [node for node in self._topology.render_nodes if node.identity.address == address]
        if address in self._compute:
            own += [node for node in self._compute[address].nodes if node not in own]
        return tuple(own)

    def _gpu(self, identity: PciIdentity, driver: str | None, nodes: tuple[RenderNode, ...]) -> Gpu:
        address = identity.address
        smi, proc = self._smi.get(address), self._proc.get(address or "")
        minor = self._minor(address)
        first = nodes[0] if nodes else None
        reach = {
            path for node in nodes for path in (node.path, f"/dev/dri/{node.card}" if node.card else None)
        }
        return Gpu(
            identity.vendor_name,
            (smi.name if smi else None)
            or (proc.name if proc else None)
            or (first.product_name if first else None)
            or self._plain_name(identity, driver),
            address,
            (smi.uuid if smi else None) or (proc.uuid if proc else None) or self._unique_id(address),
            smi.memory_mib if smi else self._memory(address, nodes),
            driver,
            self._driver_version(driver, smi),
            first.path if first else None,
            f"/dev/dri/{first.card}" if first and first.card else None,
            frozenset(path for path in (*reach, None if minor is None else f"/dev/nvidia{minor}") if path),
        )

    def _minor(self, address: str | None) -> int | None:
        proc = self._proc.get(address or "")
        return proc.minor if proc else None

    def _plain_name(self, identity: PciIdentity, driver: str | None) -> str:
        brand = _BRANDS.get(identity.vendor_name)
        known = self._names.get(identity)
        if identity.vendor is None or identity.product is None:
            return f"{driver or 'unknown'} GPU"
        text = known or f"GPU {identity.vendor:04x}:{identity.product:04x}"
        return f"{brand} {text}" if brand and brand.lower() not in text.lower() else text

    def _unique_id(self, address: str | None) -> str | None:
        # amdgpu states one for the cards that have it; KFD's is the same number.
        text = read_text(self._root / "sys/bus/pci/devices" / address / "unique_id") if address else None
        return text if text and text.strip("0") else None

    def _memory(self, address: str | None, nodes: tuple[RenderNode, ...]) -> int | None:
        stated = next((node.memory for node in nodes if node.memory is not None), None)
        if stated is None and address in self._compute:
            stated = self._compute[address].memory
        return stated >> 20 if stated is not None else None

    def _driver_version(self, driver: str | None, smi: SmiGpu | None) -> str | None:
        if driver is None or driver in _SET_ASIDE:
            return None
        if driver == "nvidia":
            # The kernel's word first: after an upgrade nvidia-smi knows only the new libraries.
            return nvidia.driver_version(self._root) or (smi.driver_version if smi else None)
        module = self._root / "sys/module" / driver.replace("-", "_") / "version"
        return read_text(module) or read_text(self._root / "proc/sys/kernel/osrelease")


def _wsl_gpus(answer: SmiAnswer | None) -> list[Gpu]:
    """Windows' NVIDIA cards: only nvidia-smi knows them apart, and all are reached by one node."""
    reach = frozenset({_WSL_NODE})
    if answer is None or not answer.gpus:
        return [Gpu("nvidia", "NVIDIA GPU of Windows", nodes=reach)]
    return [
        Gpu(
            "nvidia",
            gpu.name,
            gpu.address,
            gpu.uuid,
            gpu.memory_mib,
            "dxgkrnl",
            gpu.driver_version,
            nodes=reach,
        )
        for gpu in sorted(answer.gpus, key=lambda gpu: (address_key(gpu.address), gpu.index))
    ]


def _nvidia_warnings(
    root: Path, programs: Programs, answer: SmiAnswer | None, *, wsl: bool, wanted: bool
) -> list[str]:
    if wsl and not wanted:
        return [
            "Windows passes a GPU in, but no NVIDIA driver: under WSL containers reach NVIDIA's cards only. "
            "Next: for an NVIDIA card install its driver on Windows (never in Linux), then wsl --shutdown"
        ]
    if answer is not None:
        return [answer.problem] if answer.problem else []
    if wanted and programs.any and nvidia.driver_is_loaded(root):
        return [
            "NVIDIA's driver is loaded, but nvidia-smi is missing: memory stays unknown, and "
            "nvidia-cdi-refresh does not run without it. Next: install the driver's utilities"
        ]
    return []

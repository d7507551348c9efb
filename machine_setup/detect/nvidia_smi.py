"""What nvidia-smi adds to sysfs: names, memory, UUIDs; and what it says when the driver is broken."""

from dataclasses import dataclass
from pathlib import Path

from machine_setup.detect.pci import normal_address
from machine_setup.detect.platform import WSL_LIBRARIES
from machine_setup.programs import Finished, Programs
from spec.errors import CommandFailedError

_FIELDS = "index,uuid,name,memory.total,driver_version,pci.bus_id"
_TIMEOUT_SECONDS = 60

# What ends the text of a failure, in NVIDIA's words, and what an operator does about it.
_REMEDIES = (
    (
        "Driver/library version mismatch",
        "the driver's libraries were upgraded while the old kernel module stays loaded: reboot",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        "the module is not loaded or does not fit this kernel: install the driver for the running kernel",
    ),
    ("No devices were found", "the driver refuses its cards: look for NVRM lines in dmesg"),
    ("Unknown Error", "a card does not answer: look for Xid lines in dmesg, then reset it or reboot"),
    ("GPU is lost", "a card has fallen off the bus: look for Xid lines in dmesg, then reboot"),
    ("libnvidia-ml.so", "the driver's user-mode libraries are missing: reinstall the driver"),
    ("Insufficient Permissions", "run renet setup as root"),
)


@dataclass(frozen=True)
class SmiGpu:
    """One line of nvidia-smi. Memory in MiB, None where the card does not say (``[N/A]`` on some)."""

    index: int
    uuid: str
    name: str
    memory_mib: int | None
    driver_version: str | None
    address: str | None


@dataclass(frozen=True)
class SmiAnswer:
    """What nvidia-smi answered: GPUs, or what is wrong as "what. What to do"."""

    gpus: tuple[SmiGpu, ...] = ()
    problem: str | None = None


def ask(root: Path, programs: Programs, *, wsl: bool) -> SmiAnswer | None:
    """Ask nvidia-smi, by its full path on WSL; None when the machine does not have it.

    Never raises: a driver that hangs or fails is an answer too.
    """
    program = root / WSL_LIBRARIES / "nvidia-smi" if wsl else programs.find("nvidia-smi")
    if program is None or not program.exists() or not programs.any:
        return None
    try:
        finished = programs.run(
            [str(program), f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"],
            timeout=_TIMEOUT_SECONDS,
        )
    except CommandFailedError as error:
        return SmiAnswer(problem=f"nvidia-smi does not work: {error.message}. {error.hint or 'Reboot'}")
    gpus = tuple(gpu for line in finished.stdout.splitlines() if (gpu := parse_line(line)) is not None)
    return SmiAnswer(gpus, _problem(finished) if finished.status or not gpus else None)


def parse_line(line: str) -> SmiGpu | None:
    """One line of the CSV that we ask for, or None when `line` is something else (an error, a warning)."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 6 or not fields[0].isdecimal() or not fields[1].startswith("GPU-"):
        return None
    # A name may hold a comma: it is what stands between the UUID and the last three fields.
    name = ", ".join(fields[2:-3])
    memory, version, bus = fields[-3:]
    return SmiGpu(
        int(fields[0]),
        fields[1],
        name,
        int(memory) if memory.isdecimal() else None,
        None if version.startswith("[") else version,
        normal_address(bus),
    )


def _problem(finished: Finished) -> str:
    lines = [line.strip() for line in (finished.stdout + finished.stderr).splitlines()]
    said = next((line for line in lines if line and parse_line(line) is None), "")
    said = said.rstrip(".") or f"it ended with status {finished.status} and no message"
    text = finished.stdout + finished.stderr
    remedy = next((remedy for words, remedy in _REMEDIES if words in text), "look at dmesg")
    return f"NVIDIA's driver does not work: nvidia-smi says “{said}”. Next: {remedy}"

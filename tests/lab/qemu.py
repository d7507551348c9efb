"""One QEMU process: how the lab machine's hardware looks, and how to freeze its state into its disk."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import TextIO

from tests.lab.image import Image

MEMORY_MIB = 2048
# On a busy host an emulated machine's timer may tick too late for the kernel's check of it, and the kernel
# would panic over nothing (no_timer_check, in the kernel's documentation of its parameters).
KERNEL_COMMAND_LINE = "root=/dev/vda rw console=ttyS0 quiet no_timer_check panic=1"
# The name of the frozen state in the disk.
STATE = "up"


def acceleration() -> str:
    """``kvm`` where it runs on the processor's own extension, else ``tcg``.

    What else offers /dev/kvm boots no stock kernel.
    """
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return "kvm" if flags & {"vmx", "svm"} and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"


def version() -> str:
    """QEMU's own words on its version: a frozen state is only good for the one that froze it."""
    return subprocess.run(
        ["qemu-system-x86_64", "--version"], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]


class Qemu:
    """A started machine below `directory`, with its SSH server at `port` of the host's loopback address.

    `frozen` starts it from the state that `freeze` left in `disk`; otherwise it boots.
    """

    def __init__(self, image: Image, disk: Path, directory: Path, port: int, *, frozen: bool) -> None:
        self._monitor = directory / "monitor.sock"
        self._log = directory / "qemu.log"
        accelerated = acceleration()
        network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
        # It must not outlive a test run that was killed.
        command = [
            "setpriv", "--pdeathsig=KILL", "--", "qemu-system-x86_64", "-nodefaults", "-display", "none",
            "-smp", "2", "-m", str(MEMORY_MIB),
            "-machine", f"q35,accel={accelerated}", "-cpu", "host" if accelerated == "kvm" else "max",
            "-kernel", str(image.kernel), "-initrd", str(image.initrd),
            "-append", KERNEL_COMMAND_LINE,
            "-drive", f"file={disk},if=virtio,format=qcow2",
            "-netdev", network, "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
            "-device", "virtio-gpu-pci", "-serial", f"file:{directory / 'console.log'}",
            "-qmp", f"unix:{self._monitor},server=on,wait=off", *(("-loadvm", STATE) if frozen else ()),
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ended(self) -> str | None:
        """Why it ended by itself, or None while it runs."""
        return None if self._process.poll() is None else self._log.read_text() or "no reason given"

    def freeze(self) -> str:
        """Stops the machine and saves its whole state in its disk; the answer is "" or what went wrong."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(300)
            connection.connect(str(self._monitor))
            with connection.makefile("rw") as stream:
                stream.readline()  # QEMU's greeting
                _ask(stream, "qmp_capabilities")
                _ask(stream, "stop")
                return _ask(stream, "human-monitor-command", {"command-line": f"savevm {STATE}"})

    def kill(self) -> None:
        """Ends it at once, as when its power fails."""
        self._process.kill()
        self._process.wait()


def _ask(stream: TextIO, command: str, arguments: dict[str, str] | None = None) -> str:
    """One command of the QEMU machine protocol; events that come in between are of no interest."""
    stream.write(json.dumps({"execute": command, "arguments": arguments or {}}) + "\n")
    stream.flush()
    for line in stream:
        answer = json.loads(line)
        if "error" in answer:
            return str(answer["error"]["desc"])
        if "return" in answer:
            return str(answer["return"] or "")
    return "QEMU ended"

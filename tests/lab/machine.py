"""The lab machine: a whole Debian with systemd, Docker and two render nodes, booted under QEMU.

What it writes goes to a copy-on-write disk of its own, which reboots and power cuts keep and `close` removes.
Its network reaches nothing; SSH comes in through a port of the host's loopback address.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.build import PROJECT, Image, image

# Without hardware virtualisation a boot takes minutes, not seconds.
BOOT_TIMEOUT = {"kvm": 120.0, "tcg": 600.0}
MEMORY_MIB = 2048


class LabError(Exception):
    """The machine did not do what a test needs; the message ends with its console."""


class Machine:
    """One lab machine. As a context manager it is booted on entry and ended on exit.

    `ssh_config` names the hosts ``lab`` (root) and ``lab-admin`` (a user who may use sudo) for any OpenSSH
    client: ``ssh -F SSH_CONFIG lab``. `port` is its SSH server on 127.0.0.1.
    """

    def __init__(self, built: Image | None = None) -> None:
        self.image = built or image()
        self.directory = Path(tempfile.mkdtemp(prefix="gate-lab-"))
        self.disk = self.directory / "disk.qcow2"
        self.console_file = self.directory / "console.log"
        self.ssh_config = self.directory / "ssh_config"
        self.acceleration = "kvm" if _has_virtualisation() else "tcg"
        self.port = _free_port()
        self._qemu: subprocess.Popen[bytes] | None = None
        self._write_ssh_config()
        _host_run(
            [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-F",
                "raw",
                "-b",
                str(self.image.disk),
                str(self.disk),
            ]
        )

    def start(self) -> None:
        """Boots it and returns when SSH answers and systemd has started everything.

        Raises `LabError` where it does not come up.
        """
        if self._qemu is not None:
            raise self._error("it runs already")
        with (self.directory / "qemu.log").open("ab") as log:
            self._qemu = subprocess.Popen(
                self._qemu_command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.power_cut()
            raise

    def run(
        self,
        command: str,
        *,
        user: str = "root",
        check: bool = True,
        timeout: float = 120,
        input: str | None = None,  # noqa: A002 - subprocess's own name for it
    ) -> subprocess.CompletedProcess[str]:
        """Runs a shell command on the machine.

        Raises `LabError` with what it wrote where it fails, unless `check` is false.
        """
        done = subprocess.run(
            ["ssh", "-F", str(self.ssh_config), _host(user), command],
            check=False,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise self._error(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def copy_in(self, source: Path, target: str, *, user: str = "root") -> None:
        """Copies a file or a directory to the machine; `target` is the path it gets, its parents are made."""
        self.run(f"mkdir -p {shlex.quote(str(Path(target).parent))}", user=user)
        arguments = ["-r", "-p", str(source), f"{_host(user)}:{target}"]
        _host_run(["scp", "-q", "-F", str(self.ssh_config), *arguments])

    def install_project(self) -> None:
        """Installs this checkout as a wheel in /opt/rediacc, with ``renet`` and ``rdc`` in /usr/local/bin."""
        with tempfile.TemporaryDirectory() as scratch:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            _host_run([*pip, "wheel", "--no-deps", "--wheel-dir", scratch, str(PROJECT)])
            wheel = next(Path(scratch).glob("*.whl"))
            self.copy_in(wheel, f"/root/{wheel.name}")
        self.run(
            "python3 -m venv --system-site-packages /opt/rediacc && "
            "/opt/rediacc/bin/pip install --quiet --no-index --no-deps --force-reinstall "
            f"/root/{wheel.name} && "
            "ln -sf /opt/rediacc/bin/renet /opt/rediacc/bin/rdc /usr/local/bin/",
            timeout=300,
        )

    def reboot(self) -> None:
        """Reboots it as an operator does, and returns when it is up again."""
        before = self.run("cat /proc/sys/kernel/random/boot_id").stdout
        self.run("systemctl reboot", check=False)
        self._end_ssh_master()
        self._wait_until_up(other_than=before)

    def power_cut(self) -> None:
        """Ends it at once, as when its power fails. Its disk keeps what had reached it, for `start`."""
        self._end_ssh_master()
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None

    def close(self) -> None:
        """Ends it and removes its disk."""
        self.power_cut()
        shutil.rmtree(self.directory)

    def console(self) -> str:
        """What it has written to its serial console."""
        return self.console_file.read_text(errors="replace") if self.console_file.exists() else ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _qemu_command(self) -> list[str]:
        network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        return [
            "qemu-system-x86_64", "-nodefaults", "-display", "none",
            "-machine", f"q35,accel={self.acceleration}", "-smp", "2", "-m", str(MEMORY_MIB),
            "-cpu", "host" if self.acceleration == "kvm" else "max",
            "-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd),
            "-append", "root=/dev/vda rw console=ttyS0 quiet",
            "-drive", f"file={self.disk},if=virtio,format=qcow2",
            "-netdev", network, "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
            "-device", "virtio-gpu-pci", "-serial", f"file:{self.console_file}",
        ]  # fmt: skip

    def _write_ssh_config(self) -> None:
        known_hosts = self.directory / "known_hosts"
        known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.image.host_key}\n")
        self.ssh_config.write_text(f"""\
Host lab
  User root
Host lab-admin
  User admin
Host lab lab-admin
  HostName 127.0.0.1
  Port {self.port}
  IdentityFile {self.image.key}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 20
  LogLevel ERROR
  ControlMaster auto
  ControlPersist 60
  ControlPath {self.directory}/%n
""")

    def _wait_until_up(self, other_than: str = "") -> None:
        deadline = time.monotonic() + BOOT_TIMEOUT[self.acceleration]
        probe = "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait"
        while True:
            if self._qemu is None or self._qemu.poll() is not None:
                raise self._error("QEMU has ended: " + (self.directory / "qemu.log").read_text())
            try:
                boot_id, _, state = self.run(probe, check=False, timeout=60).stdout.partition("\n")
            except subprocess.TimeoutExpired:
                boot_id = state = ""
            if boot_id and boot_id != other_than.strip():
                if state.strip() != "running":
                    failed = self.run("systemctl --failed --no-legend", check=False).stdout
                    raise self._error(f"systemd is {state.strip()}: {failed}")
                return
            if time.monotonic() > deadline:
                raise self._error("it does not come up")
            self._end_ssh_master()
            time.sleep(0.3)

    def _end_ssh_master(self) -> None:
        for user in ("root", "admin"):
            command = ["ssh", "-F", str(self.ssh_config), "-O", "exit", _host(user)]
            subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def _error(self, message: str) -> LabError:
        tail = "\n".join(self.console().splitlines()[-15:])
        return LabError(f"lab machine: {message}\n--- last lines of its console ---\n{tail}")


def _host(user: str) -> str:
    return "lab" if user == "root" else f"lab-{user}"


def _host_run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LabError(f"{shlex.join(command)}: {done.stderr.strip()}")


def _has_virtualisation() -> bool:
    """Whether KVM runs on the processor's own extension; what else offers /dev/kvm boots no stock kernel."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return bool(flags & {"vmx", "svm"}) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def _free_port() -> int:
    """A port that is free now; QEMU takes it a moment later, and says so where somebody else was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

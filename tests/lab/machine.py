"""The lab machine: a whole Debian with systemd, Docker and two render nodes, booted under QEMU.

What it writes goes to a copy-on-write disk of its own, which reboots and power cuts keep and `close` removes.
Its network reaches nothing; SSH comes in through a port of the host's loopback address.
"""

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

from tests.engine.unpack import locked
from tests.lab.build import PROJECT
from tests.lab.image import Image, image
from tests.lab.qemu import Qemu, acceleration, version

# Without hardware virtualisation a boot takes minutes, not seconds.
BOOT_TIMEOUT = {"kvm": 120.0, "tcg": 600.0}


# A wheel of pure Python is installed by unpacking it; pip takes its minute on an emulated processor.
INSTALL = """\
set -eu
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$site"/grants_cli "$site"/machine_setup "$site"/plugin "$site"/spec "$site"/rediacc_gpu_gate-*
python3 -m zipfile -e /root/project.whl "$site"
for command in grants_cli.rdc machine_setup.renet; do
  printf '#!/usr/bin/python3\\nfrom %s import main\\n\\nmain()\\n' "$command" >"/usr/local/bin/${command#*.}"
  chmod 755 "/usr/local/bin/${command#*.}"
done
"""


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
        self.port = _free_port()
        self._qemu: Qemu | None = None
        self._write_ssh_config()

    def start(self) -> None:
        """Starts it and returns when SSH answers and systemd has started everything.

        The first start continues from a frozen state where one is kept, a later one boots. Raises `LabError`
        where it does not come up.
        """
        if self._qemu is not None:
            raise self._error("it runs already")
        frozen = False
        if not self.disk.exists():
            frozen = self._make_disk()
        self._qemu = Qemu(self.image, self.disk, self.directory, self.port, frozen=frozen)
        try:
            self._wait_until_up()
            if frozen:
                self.run(f"date --set=@{time.time():.0f}")
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
        run_here(["scp", "-q", "-F", str(self.ssh_config), *arguments])

    def install_project(self) -> None:
        """Installs this checkout, as its wheel has it, with renet and rdc in /usr/local/bin."""
        with tempfile.TemporaryDirectory() as scratch:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            run_here([*pip, "wheel", "--no-deps", "--wheel-dir", scratch, str(PROJECT)])
            self.copy_in(next(Path(scratch).glob("*.whl")), "/root/project.whl")
        self.run(INSTALL)

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

    def _make_disk(self) -> bool:
        """Makes the copy-on-write disk; whether it holds a frozen state to continue from."""
        if acceleration() == "kvm":  # boots in seconds, and its state is bound to the host's processor
            empty_disk(self.image, self.disk)
            return False
        kept = self.image.frozen(version())
        with locked(kept.with_suffix(".lock")):
            if not kept.exists():
                self._freeze_one(kept)
        run_here(["cp", "--sparse=always", "--reflink=auto", str(kept), str(self.disk)])
        return True

    def _freeze_one(self, kept: Path) -> None:
        """Boots a machine once and keeps its state and disk as `kept`."""
        first = Machine(self.image)
        try:
            empty_disk(self.image, first.disk)
            first.start()
            first.run("sync")
            first._end_ssh_master()
            problem = first._qemu.freeze() if first._qemu else ""
            if problem:
                raise first._error(f"its state cannot be saved: {problem}")
            first.power_cut()
            first.disk.rename(kept)
        finally:
            first.close()

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
        deadline = time.monotonic() + BOOT_TIMEOUT[acceleration()]
        probe = "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait"
        while True:
            reason = self._qemu.ended() if self._qemu else "it was not started"
            if reason:
                raise self._error(f"QEMU does not run: {reason}")
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


def empty_disk(base: Image, disk: Path) -> None:
    """Makes a copy-on-write disk over the image's."""
    run_here(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base.disk), str(disk)])


def run_here(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LabError(f"{shlex.join(command)}: {done.stderr.strip()}")


def _free_port() -> int:
    """A port that is free now; QEMU takes it a moment later, and says so where somebody else was faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

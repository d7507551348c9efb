"""Machines to log in to: a real sshd each, with files and, where asked for, a network of its own.

A machine is a mount namespace whose `OWN` directories are overlays over this machine's: what a test installs
or configures there is gone with it. `save_image` keeps such a difference, so that installing `renet` is done
once and not for each test.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

OWN = ("etc", "home", "opt", "root", "usr/local/bin", "var/lib", "var/log")
USER = "gpuops"


@cache
def python() -> Path:
    """A Python that is 3.11 or newer and that every user of the machine may run."""
    for candidate in (
        *sorted(Path("/usr/bin").glob("python3.*[0-9]"), reverse=True),
        Path(sys.executable).resolve(),
    ):
        question = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
        command = ["setpriv", "--reuid=65534", "--clear-groups", str(candidate), "-I", "-c", question]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return candidate
    raise AssertionError("no Python 3.11 that all users can run: apt-get install python3")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Machine:
    """A running machine; `ssh` options reach it as `user` or as root."""

    directory: Path
    port: int
    address: str
    sshd: "subprocess.Popen[bytes]"
    namespace: str = ""
    keys: dict[str, Path] = field(default_factory=dict)

    @property
    def enter(self) -> list[str]:
        """What makes the command that follows one of the machine, run by root without SSH."""
        there = f"/proc/{self.sshd.pid}"
        # Entering a mount namespace that was made in a chroot leaves the chroot, and would be this machine.
        return ["nsenter", f"--mount={there}/ns/mnt", f"--net={there}/ns/net", f"--root={there}/root", "--"]

    def run(self, *command: str, stdin: bytes = b"") -> str:
        """What `command`, run by root on the machine without SSH, prints; raises when it fails."""
        result = subprocess.run(
            [*self.enter, *command], input=stdin, capture_output=True, timeout=120, check=False
        )
        assert result.returncode == 0, (command, result.stdout, result.stderr)
        return result.stdout.decode()

    def put(self, path: str, content: str, mode: int = 0o644) -> None:
        """Write a file of the machine."""
        self.run(
            "sh",
            "-c",
            'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"',
            "-",
            path,
            f"{mode:o}",
            stdin=content.encode(),
        )

    def exists(self, path: str) -> bool:
        """Whether the machine has a file at `path`."""
        return self.run("sh", "-c", 'if [ -e "$1" ]; then echo y; fi', "-", path) != ""

    def end(self) -> None:
        """End sshd and all that it started."""
        if self.sshd.poll() is None:
            for pid, _ in self._processes():
                _kill(pid)
        self.sshd.kill()
        self.sshd.wait()

    def cut_connections(self) -> None:
        """End the connections that are open, but neither sshd nor the commands that run."""
        for pid, name in self._processes():
            if name.startswith("sshd"):
                _kill(pid)

    @property
    def logins(self) -> int:
        """How many times somebody has logged in."""
        return (self.directory / "sshd.log").read_text().count("Accepted publickey")

    def _processes(self) -> list[tuple[int, str]]:
        """The processes in its mount namespace and their names, sshd itself excepted."""
        ours = Path(f"/proc/{self.sshd.pid}/ns/mnt").stat().st_ino
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "ns/mnt").stat().st_ino == ours and int(entry.name) != self.sshd.pid:
                    found.append((int(entry.name), (entry / "comm").read_text().strip()))
        return found


_SETUP = r"""
set -e
base=$1 image=$2 user=$3 python=$4; shift 4
mount -t tmpfs -o mode=755 machine "$base/mnt"
mkdir "$base/mnt/upper"
[ -z "$image" ] || tar -C "$base/mnt/upper" --xattrs --xattrs-include="*" -xpf "$image"
for place in "$@"; do
  mkdir -p "$base/mnt/upper/$place" "$base/mnt/work/$place" "/$place"
  chmod --reference="/$place" "$base/mnt/upper/$place"
  layers="lowerdir=/$place,upperdir=$base/mnt/upper/$place,workdir=$base/mnt/work/$place"
  mount -t overlay overlay -o "$layers" "/$place"
done
rm -rf /root/.ssh /root/.bashrc /root/.profile
mount -t tmpfs -o mode=755 run /run
[ -n "$image" ] || rm -rf /etc/rediacc /etc/cdi /var/lib/rediacc /opt/rediacc /usr/local/bin/renet
ln -sf "$python" /usr/local/bin/python3
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/sh --password '*' "$user"
echo "$user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/zz-test
chmod 440 /etc/sudoers.d/zz-test
for home in /root "/home/$user"; do
  mkdir -p "$home/.ssh"
  cp "$base/key.pub" "$home/.ssh/authorized_keys"
done
chmod 700 /root /root/.ssh
chown -R "$user:" "/home/$user"
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f "$base/sshd_config"
"""


@contextlib.contextmanager
def machine(
    directory: Path,
    *,
    image: Path | None = None,
    namespace: str = "",
    address: str = "127.0.0.1",
    sshd: str = "",
) -> Iterator[Machine]:
    """A machine with sshd at `address`, in the network `namespace`, over `image`; gone at the end."""
    assert os.geteuid() == 0, "machines are mount namespaces, which needs root: sudo scripts/test"
    directory.mkdir(parents=True)
    (directory / "mnt").mkdir()
    for name in ("key", "host_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", directory / name], check=True
        )
    port = 22022 if namespace else _free_port()
    (directory / "sshd_config").write_text(_sshd_config(directory, address, port) + sshd)
    enter = ["ip", "netns", "exec", namespace] if namespace else []
    script = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SETUP, "-"]
    arguments = [str(directory), str(image or ""), USER, str(python()), *OWN]
    with (directory / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            [*enter, *script, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    made = Machine(directory, port, address, process, namespace, {"key": directory / "key"})
    try:
        _wait(made)
        yield made
    finally:
        made.end()


def _sshd_config(directory: Path, address: str, port: int) -> str:
    return f"""
ListenAddress {address}
Port {port}
HostKey {directory}/host_key
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


def _wait(made: Machine) -> None:
    end = time.monotonic() + 60
    log = made.directory / "sshd.log"
    while time.monotonic() < end:
        if b"Server listening" in log.read_bytes():
            return
        assert made.sshd.poll() is None, log.read_text()
        time.sleep(0.02)
    raise AssertionError(log.read_text())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Operator:
    """Somebody at a workstation: a home directory, an ssh configuration, and `rdc`."""

    home: Path
    namespace: str = ""

    def know(self, name: str, there: Machine, user: str = USER, options: Sequence[str] = ()) -> None:
        """Accept the host key of the machine `there` and call it `name` in the ssh configuration."""
        key = (there.directory / "host_key.pub").read_text().split()
        with (self.home / "known_hosts").open("a") as file:
            file.write(f"[{there.address}]:{there.port} {key[0]} {key[1]}\n")
        lines = [
            f"Host {name}",
            f"  HostName {there.address}",
            f"  Port {there.port}",
            f"  User {user}",
            f"  IdentityFile {there.keys['key']}",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {self.home}/known_hosts",
            *(f"  {option}" for option in options),
        ]
        with (self.home / "ssh_config").open("a") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the operator's commands."""
        keep = {
            key: value for key, value in os.environ.items() if not key.startswith(("REDIACC", "XDG", "SSH"))
        }
        root = Path(__file__).resolve().parents[2]
        return keep | {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "REDIACC_SSH": f"ssh -F {self.home}/ssh_config",
            "REDIACC_ROOT": str(self.home / "root"),
            "PYTHONPATH": str(root),
            "NO_COLOR": "1",
        }

    def start(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        """`rdc` with `words`, started."""
        enter = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        return subprocess.Popen(
            [*enter, sys.executable, "-m", "grants_cli.rdc", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ | environ,
            cwd=self.home,
        )

    def rdc(
        self, *words: str, stdin: str = "", timeout: float = 120, **environ: str
    ) -> "subprocess.CompletedProcess[str]":
        """`rdc` with `words`, run to its end."""
        process = self.start(*words, **environ)
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError((words, *process.communicate())) from None
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@contextlib.contextmanager
def operator(home: Path, namespace: str = "") -> Iterator[Operator]:
    """An operator who knows no machine; connections kept for reuse are ended afterwards."""
    (home / "run").mkdir(parents=True, mode=0o700)
    (home / "ssh_config").touch()
    made = Operator(home, namespace)
    try:
        yield made
    finally:
        for control in (home / "run").glob("rediacc-ssh-*/*"):
            subprocess.run(
                ["ssh", "-o", f"ControlPath={control}", "-O", "exit", "-"], capture_output=True, check=False
            )


def save_image(made: Machine, image: Path) -> None:
    """Keep what differs on the machine, to start others from."""
    # An archive: where this is a container, its disk is an overlay itself, and takes no other's whiteouts.
    pack = 'tar -C "$1/mnt/upper" --xattrs --xattrs-include="*" -cpf "$2" .'
    made.run("sh", "-c", pack, "-", str(made.directory), str(image))

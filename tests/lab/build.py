"""Builds the disk of the lab machine: Debian with systemd, OpenSSH, Docker, a kernel with DRM drivers.

The cache keeps an image under a key of this file, the suite and the project's dependencies: what does not
change the disk belongs elsewhere.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.engine.mirror import debian_source
from tests.engine.refusal import Refusal

PROJECT = Path(__file__).parents[2]
DISK_SIZE = "8G"

PACKAGES = (
    "apparmor",
    "busybox-static",
    "ca-certificates",
    "dbus",
    "docker-buildx",
    "docker-cli",
    "docker-compose",
    "docker.io",
    "iproute2",
    "iptables",
    "kmod",
    "linux-image-amd64",
    "logrotate",
    "nftables",
    "openssh-server",
    "pciutils",
    "procps",
    "python3",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
)

# Runs in the new system. The virtio GPU's driver is found by its PCI device; vgem has none and must be
# asked for. AppArmor's service loads many profiles, slowly; Docker loads its own without it.
CONFIGURE = """\
echo lab >/etc/hostname
printf '127.0.0.1 localhost lab\\n' >/etc/hosts
printf '/dev/vda / ext4 defaults 0 1\\n' >/etc/fstab
printf '[Match]\\nType=ether\\nName=en*\\n\\n[Network]\\nDHCP=ipv4\\n' >/etc/systemd/network/lab.network
echo vgem >/etc/modules-load.d/lab-gpu.conf
systemctl enable --quiet systemd-networkd ssh docker
systemctl mask --quiet systemd-networkd-wait-online apparmor.service \\
  apt-daily.timer apt-daily-upgrade.timer
useradd --create-home --shell /bin/bash admin
printf 'admin ALL=(ALL) NOPASSWD: ALL\\n' >/etc/sudoers.d/admin
ssh-keygen -q -A
for home in /root /home/admin; do
  install -d -m 700 "$home/.ssh"
  install -m 600 /id.pub "$home/.ssh/authorized_keys"
done
chown -R admin: /home/admin/.ssh
rm -rf /id.pub /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
"""


def build(suite: str, scratch: Path) -> Path:
    """Builds below `scratch` and returns the image's directory. Raises `Refusal` where it cannot."""
    if os.geteuid() != 0:
        raise Refusal("the lab machine is built with debootstrap, which needs root")
    source = debian_source()
    root, result = scratch / "root", scratch / "image"
    result.mkdir()
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(result / "id"))
    # A mount namespace of its own takes what debootstrap mounts, even where it is interrupted.
    _run(
        "unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        f"--keyring={source.keyring}", suite, str(root), source.uri,
    )  # fmt: skip
    shutil.copy(result / "id.pub", root / "id.pub")
    _run("chroot", str(root), "sh", "-euc", CONFIGURE)
    _install_dependencies(root)
    shutil.copy(root / "etc/ssh/ssh_host_ed25519_key.pub", result / "host_key.pub")
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), result / "vmlinuz")
    shutil.copy(next((root / "boot").glob("initrd.img-*")), result / "initrd")
    _run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(result / "disk.img"), DISK_SIZE)
    return result


def _install_dependencies(root: Path) -> None:
    """The project's dependencies for the new system's Python: the lab machine has no network."""
    version = next((root / "usr/lib").glob("python3.*")).name.removeprefix("python")
    platforms = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
    _run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        f"--target={root}/usr/local/lib/python{version}/dist-packages", "--only-binary=:all:",
        f"--python-version={version}", "--implementation=cp",
        *(f"--platform={name}_{os.uname().machine}" for name in platforms),
        *dependencies(),
    )  # fmt: skip


def dependencies() -> list[str]:
    """What the project needs from other projects to run."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return [str(requirement) for requirement in project["dependencies"]]


def _run(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            command, check=False, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise Refusal(f"{command[0]} is not installed: scripts/test --all installs it") from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise Refusal(f"the lab machine could not be built: {command[0]} failed:\n{tail}")

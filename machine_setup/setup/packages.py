"""How NVIDIA's Container Toolkit gets onto a machine: its package repository, by apt, dnf or zypper.

Only ``nvidia-container-toolkit-base`` is installed: nvidia-ctk, the CDI hooks and nvidia-cdi-refresh. The
full set would add the hook for the runtimes that we never configure; where it is there already it is kept
in step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine_setup.programs import Programs
from machine_setup.setup.changes import Change, Download, RunProgram, WriteFile
from machine_setup.setup.options import NVIDIA_REPOSITORY
from spec.sysfs import read_text

BASE_PACKAGE = "nvidia-container-toolkit-base"
FULL_PACKAGE = "nvidia-container-toolkit"

_KEY_BEGINS = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
# Where a source of the machine already names NVIDIA's repository, whatever its mirror.
_REPOSITORY_MARK = "libnvidia-container"
_MINUTE = 60


@dataclass(frozen=True)
class PackageManager:
    """One of the machine's ways to install packages, and the distributions that have it."""

    program: str
    family: frozenset[str]
    sources: tuple[str, ...]
    source: str
    key: str


APT = PackageManager(
    "apt-get",
    frozenset({"debian", "ubuntu"}),
    ("etc/apt/sources.list", "etc/apt/sources.list.d"),
    "etc/apt/sources.list.d/nvidia-container-toolkit.list",
    # apt takes an armoured key by this suffix, so that no gpg is needed.
    "usr/share/keyrings/nvidia-container-toolkit-keyring.asc",
)
DNF = PackageManager(
    "dnf",
    frozenset({"fedora", "rhel", "centos", "amzn", "rocky", "almalinux", "ol"}),
    ("etc/yum.repos.d",),
    "etc/yum.repos.d/nvidia-container-toolkit.repo",
    "etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit",
)
ZYPPER = PackageManager(
    "zypper",
    frozenset({"suse", "opensuse", "sles", "opensuse-leap", "opensuse-tumbleweed"}),
    ("etc/zypp/repos.d",),
    "etc/zypp/repos.d/nvidia-container-toolkit.repo",
    "etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit",
)


def package_manager(root: Path, programs: Programs) -> PackageManager | None:
    """The package manager of the distribution below `root`, or the first of the three that it has.

    The distribution decides first: dnf and zypper can be installed on Debian, too.
    """
    present = [manager for manager in (APT, DNF, ZYPPER) if programs.find(manager.program)]
    ids = _os_ids(root)
    return next((manager for manager in present if manager.family & ids), present[0] if present else None)


def install_changes(
    manager: PackageManager, root: Path, programs: Programs, repository: str = NVIDIA_REPOSITORY
) -> list[Change]:
    """What installs the toolkit, or makes an old one new: source and key where missing, then the packages."""
    changes: list[Change] = []
    if not _has_source(manager, root):
        key, source = root / manager.key, root / manager.source
        if not (read_text(key) or "").startswith(_KEY_BEGINS.decode()):
            changes.append(Download(f"{repository}/gpgkey", key, _KEY_BEGINS))
        changes.append(WriteFile(source, _source_text(manager, repository).encode()))
    packages = [BASE_PACKAGE]
    if programs.find("nvidia-container-runtime-hook"):
        # It demands the base package of its own version: upgraded alone, base would take it away.
        packages.append(FULL_PACKAGE)
    return changes + _commands(manager, root, programs, packages)


def _commands(
    manager: PackageManager, root: Path, programs: Programs, packages: Sequence[str]
) -> list[Change]:
    if manager is APT:
        return _apt_commands(root, programs, packages)
    if manager is DNF:
        return [RunProgram(programs, ["dnf", "install", "--assumeyes", *packages], timeout=30 * _MINUTE)]
    zypper = ["zypper", "--non-interactive", "--gpg-auto-import-keys"]
    environ = {"ZYPP_LOCK_TIMEOUT": "300"}
    return [
        RunProgram(
            programs, [*zypper, "refresh", "nvidia-container-toolkit"], timeout=10 * _MINUTE, environ=environ
        ),
        RunProgram(
            programs,
            [*zypper, "install", "--no-recommends", *packages],
            timeout=30 * _MINUTE,
            environ=environ,
        ),
    ]


def _apt_commands(root: Path, programs: Programs, packages: Sequence[str]) -> list[Change]:
    environ = {"DEBIAN_FRONTEND": "noninteractive"}
    lock = ["-o", "DPkg::Lock::Timeout=300"]
    commands: list[Change] = []
    # A dpkg that was cut off leaves its journal here, and apt refuses everything until it is worked off.
    if any((root / "var/lib/dpkg/updates").glob("[0-9]*")):
        commands.append(
            RunProgram(programs, ["dpkg", "--configure", "-a"], timeout=10 * _MINUTE, environ=environ)
        )
    update = ["apt-get", "update", *lock]
    if (root / APT.source).exists() or not _has_source(APT, root):
        # Only NVIDIA's: another repository of the machine that does not answer is not set-up's business.
        update += ["-o", f"Dir::Etc::sourcelist={root / APT.source}", "-o", "Dir::Etc::sourceparts=-"]
        # "any": without it apt-get update ends well when the repository cannot be reached.
        update += ["-o", "APT::Get::List-Cleanup=0", "-o", "APT::Update::Error-Mode=any"]
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "--no-remove", *lock]
    install += ["-o", "Dpkg::Options::=--force-confold", *packages]
    return [
        *commands,
        RunProgram(programs, update, timeout=10 * _MINUTE, environ=environ),
        RunProgram(programs, install, timeout=30 * _MINUTE, environ=environ),
    ]


def _has_source(manager: PackageManager, root: Path) -> bool:
    """Whether a source of the machine names NVIDIA's repository: then the operator's own stands."""
    files: list[Path] = []
    for name in manager.sources:
        path = root / name
        files += sorted(path.iterdir()) if path.is_dir() else [path]
    lines = (line for file in files for line in (read_text(file) or "").splitlines())
    return any(_REPOSITORY_MARK in line and not line.lstrip().startswith("#") for line in lines)


def _source_text(manager: PackageManager, repository: str) -> str:
    if manager is APT:
        return f"deb [signed-by=/{manager.key}] {repository}/stable/deb/$(ARCH) /\n"
    # As NVIDIA's own file has it: the metadata is signed, and holds the packages' digests.
    return (
        "[nvidia-container-toolkit]\n"
        "name=nvidia-container-toolkit\n"
        f"baseurl={repository}/stable/rpm/$basearch\n"
        "enabled=1\n"
        "repo_gpgcheck=1\n"
        "gpgcheck=0\n"
        f"gpgkey=file:///{manager.key}\n"
    )


def _os_ids(root: Path) -> frozenset[str]:
    text = read_text(root / "etc/os-release") or read_text(root / "usr/lib/os-release") or ""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    words = " ".join(fields.get(key, "").strip("\"'") for key in ("ID", "ID_LIKE"))
    return frozenset(words.split())

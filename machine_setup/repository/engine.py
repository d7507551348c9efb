"""The Docker engine that is installed: its version, and what that version knows."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from spec.errors import CommandFailedError, NotFoundError, RediaccError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, order=True)
class EngineVersion:
    """A version of dockerd, as far as its abilities follow from it."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> "EngineVersion":
        """The first version in `text` (``Docker version 28.5.2+dfsg4, build …``); raises `ValueError`."""
        match = _VERSION.search(text)
        if match is None:
            raise ValueError(f"no version in {text!r}")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


#: The oldest engine that has CDI at all.
FLOOR = EngineVersion(25, 0)
#: From here on requests that are too large for a plugin are refused instead of hidden (CVE-2026-34040).
RECOMMENDED = EngineVersion(29, 3, 1)
#: From here on CDI is on without the feature switch (moby 28.2 release notes).
CDI_BY_DEFAULT = EngineVersion(28, 2)
#: The first with ``nri-opts``; an older one refuses a daemon.json that has the key (moby v29.2.0 config.go).
NRI = EngineVersion(29, 2)
#: The first whose ``/info`` lists the CDI devices it knows (API 1.50).
LISTS_DEVICES = EngineVersion(28, 2)


def dockerd_path() -> str:
    """The installed dockerd; raises `NotFoundError`."""
    found = shutil.which("dockerd") or shutil.which("dockerd", path="/usr/sbin:/usr/bin:/usr/local/bin:/sbin")
    if found is None:
        raise NotFoundError(
            "there is no dockerd on this machine",
            f"install Docker {FLOOR.major} or newer: apt-get install docker.io",
        )
    return found


def installed_version(dockerd: str) -> EngineVersion:
    """The version of the program `dockerd`; raises `CommandFailedError`."""
    done = subprocess.run([dockerd, "--version"], capture_output=True, text=True, check=False)
    try:
        return EngineVersion.parse(done.stdout)
    except ValueError as error:
        raise CommandFailedError(
            f"{dockerd} --version gave no version: {(done.stderr or done.stdout).strip()}",
            "reinstall the engine",
        ) from error


def version_or_floor() -> EngineVersion:
    """The version of the installed engine; where there is none to be found, the oldest that we know."""
    try:
        return installed_version(dockerd_path())
    except RediaccError:
        return FLOOR


def validate(dockerd: str, content: bytes) -> None:
    """Let the engine itself check a daemon.json; raises `CommandFailedError` with its words."""
    with tempfile.TemporaryDirectory(prefix="renet-validate-") as directory:
        candidate = Path(directory) / "daemon.json"
        candidate.write_bytes(content)
        command = [dockerd, "--validate", "--config-file", str(candidate)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().replace(str(candidate), "daemon.json")
        raise CommandFailedError(
            f"dockerd does not accept the configuration: {words}", "update the engine, or report it"
        )

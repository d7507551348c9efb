"""Unpacks Docker from a Debian suite into a directory, without touching what is installed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.mirror import Source
from tests.engine.refusal import Refusal

PACKAGES = ("docker.io", "docker-cli", "docker-compose", "docker-buildx", "containerd")
# docker-init, for `docker run --init`, is a link to a program of another package.
INIT_PACKAGE = {"sid": "tini-static", "trixie": "tini"}


def cache_dir() -> Path:
    """Where unpacked engines and lab images are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rediacc-gpu-gate"


def unpack(suite: str, source: Source, say: Callable[[str], None]) -> Path:
    """The root of an unpacked engine of `suite`, from the cache or newly fetched.

    Raises `Refusal` where apt or dpkg cannot deliver it.
    """
    target = cache_dir() / f"engine-{suite}"
    with locked(target.with_suffix(".lock")):
        if not target.exists():
            say(f"fetching Docker from Debian {suite} (about 90 MB) into {target} …")
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpack-") as scratch:
                _fetch(suite, source, Path(scratch))
                (Path(scratch) / "root").rename(target)
    return target


def _fetch(suite: str, source: Source, scratch: Path) -> None:
    for directory in ("state/lists/partial", "cache/archives/partial", "packages", "root"):
        (scratch / directory).mkdir(parents=True)
    (scratch / "state/status").touch()
    (scratch / "sources.list").write_text(f"deb [signed-by={source.keyring}] {source.uri} {suite} main\n")
    (scratch / "apt.conf").write_text(_APT_CONF.format(scratch=scratch))
    # APT_CONFIG is read after /etc/apt/apt.conf.d: the machine's proxy and retry settings hold here too.
    environment = {**os.environ, "APT_CONFIG": str(scratch / "apt.conf")}
    _apt(["update", "--error-on=any"], scratch, environment)
    _apt(["download", *PACKAGES, INIT_PACKAGE[suite]], scratch / "packages", environment)
    for package in sorted((scratch / "packages").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(scratch / "root")], scratch, dict(os.environ))


_APT_CONF = """\
Dir::State "{scratch}/state";
Dir::State::lists "{scratch}/state/lists";
Dir::State::status "{scratch}/state/status";
Dir::Cache "{scratch}/cache";
Dir::Etc::sourcelist "{scratch}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
APT::Sandbox::User "";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def _apt(arguments: list[str], directory: Path, environment: dict[str, str]) -> None:
    if shutil.which("apt-get") is None:
        raise Refusal(
            "no dockerd of version 25 or newer is installed, and there is no apt-get to fetch one with"
        )
    _run(["apt-get", "-q", *arguments], directory, environment)


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        check=False,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        reason = next((line for line in done.stderr.splitlines()[::-1] if line.strip()), "no reason given")
        raise Refusal(f"the test engine could not be fetched: {command[0]} {command[-1]}: {reason}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

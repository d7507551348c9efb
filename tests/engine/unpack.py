"""Unpacks Docker from a distribution's packages into a directory, without touching what is installed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.refusal import Refusal

# Each by the names that distributions give it, the better one first. Some have the client in docker.io.
# docker-init, for `docker run --init`, is a link to a program of a package of its own.
PACKAGES = (
    ("docker.io",),
    ("containerd",),
    ("docker-buildx",),
    ("docker-compose-v2", "docker-compose"),
    ("tini-static", "tini"),
    ("docker-cli",),
)


def cache_dir() -> Path:
    """Where unpacked engines and lab images are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rediacc-gpu-gate"


def unpack(name: str, sources: str | None, say: Callable[[str], None]) -> Path:
    """The root of the unpacked engine `name`, from the cache or newly fetched.

    `sources` is what a sources.list says; None leaves the machine's own. Raises `Refusal` where apt or dpkg
    cannot deliver it.
    """
    target = cache_dir() / f"engine-{name}"
    with locked(target.with_suffix(".lock")):
        if not target.exists():
            say(f"fetching Docker ({name}, about 90 MB) into {target} …")
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpack-") as scratch:
                _fetch(sources, Path(scratch))
                (Path(scratch) / "root").rename(target)
    return target


def _fetch(sources: str | None, scratch: Path) -> None:
    for directory in ("state/lists/partial", "cache/archives/partial", "packages", "root"):
        (scratch / directory).mkdir(parents=True)
    (scratch / "state/status").touch()
    configuration = _APT_CONF.format(scratch=scratch)
    if sources is not None:
        (scratch / "sources.list").write_text(sources)
        configuration += _OWN_SOURCES.format(scratch=scratch)
    (scratch / "apt.conf").write_text(configuration)
    # APT_CONFIG is read after /etc/apt/apt.conf.d: the machine's proxy and retry settings hold here too.
    environment = {**os.environ, "APT_CONFIG": str(scratch / "apt.conf")}
    _apt(["update", "--error-on=any"], scratch, environment)
    packages = [found for names in PACKAGES if (found := _first_known(names, environment))]
    _apt(["download", *packages], scratch / "packages", environment)
    for package in sorted((scratch / "packages").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(scratch / "root")], scratch, dict(os.environ))


def _first_known(names: tuple[str, ...], environment: dict[str, str]) -> str | None:
    for name in names:
        command = ["apt-cache", "show", name]
        if subprocess.run(command, check=False, env=environment, capture_output=True).returncode == 0:
            return name
    return None


_APT_CONF = """\
Dir::State "{scratch}/state";
Dir::State::lists "{scratch}/state/lists";
Dir::State::status "{scratch}/state/status";
Dir::Cache "{scratch}/cache";
APT::Sandbox::User "";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""

_OWN_SOURCES = """\
Dir::Etc::sourcelist "{scratch}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
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

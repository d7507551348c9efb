"""The Docker that tests and the demonstration drive: an installed one, or one unpacked into a cache.

As a command it fetches ahead, says what it does on stderr and prints the engine's `bin` directories::

    python3 -m tests.engine.obtain            # the default engine
    python3 -m tests.engine.obtain trixie     # Docker 26.1, as Debian trixie has it

Only the standard library is used, so that it runs before anything is installed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.engine.mirror import debian_source
from tests.engine.refusal import Refusal
from tests.engine.unpack import cache_dir, unpack

ENGINE_VARIABLE = "REDIACC_TEST_ENGINE"
ENGINES = ("installed", "sid", "trixie", "bookworm", "own")
FLOOR = (25, 0)


@dataclass(frozen=True)
class Engine:
    """A Docker that can be started, and the environment in which its programs find each other."""

    name: str
    version: tuple[int, int]
    path: str
    docker_config: Path

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, with this engine first and no other daemon named."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DOCKER_")}
        return {**kept, "PATH": self.path, "DOCKER_CONFIG": str(self.docker_config)}

    def program(self, name: str) -> str:
        """The full path of one of the engine's programs, or of the machine's own (runc).

        Raises `Refusal` where there is none.
        """
        found = shutil.which(name, path=self.path)
        if found is None:
            raise Refusal(f"{name} is not installed: apt-get install {name}")
        return found


def obtain(
    name: str | None = None, say: Callable[[str], None] = lambda _: None, *, floor: tuple[int, int] = FLOOR
) -> Engine:
    """The engine called `name`: ``installed``; a suite of Debian; ``own`` of this distribution.

    Without a name ``REDIACC_TEST_ENGINE`` decides, and without that an installed engine of version 25 or
    newer goes before sid's, and that before the distribution's. Raises `Refusal` where there is none of
    version `floor` or newer.
    """
    name = name or os.environ.get(ENGINE_VARIABLE) or _default()
    if name not in ENGINES:
        raise Refusal(f"there is no test engine {name}: {ENGINE_VARIABLE} may be {', '.join(ENGINES)}")
    if name == "installed":
        engine = _engine(name, _system_path(), floor=floor)
    else:
        sources = None
        if name != "own":
            source = debian_source()
            sources = f"deb [signed-by={source.keyring}] {source.uri} {name} main\n"
        root = unpack(name, sources, say)
        path = f"{root}/usr/bin:{root}/usr/sbin:{_system_path()}"
        plugins = [root / "usr" / place / "docker/cli-plugins" for place in ("libexec", "lib")]
        engine = _engine(name, path, plugins, floor=floor)
    engine.program("runc")
    return engine


def _default() -> str:
    """An installed engine, if it is new enough and has the client's Compose and Buildx, which tests use."""
    path = _system_path()
    if shutil.which("dockerd", path=path) and _version(path) >= FLOOR:
        plugins = [["docker", plugin, "version"] for plugin in ("compose", "buildx")]
        if all(subprocess.run(words, check=False, capture_output=True).returncode == 0 for words in plugins):
            return "installed"
    try:
        debian_source()
    except Refusal:
        return "own"
    return "sid"


def _system_path() -> str:
    """PATH with the administrator's directories, which root's PATH lacks after a plain `su`."""
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def _engine(name: str, path: str, plugins: list[Path] | None = None, *, floor: tuple[int, int]) -> Engine:
    version = _version(path)
    if version < floor:
        raise Refusal(
            f"the Docker of engine {name} is {version[0]}.{version[1]}; "
            f"the tests need {floor[0]}.{floor[1]} or newer"
        )
    # The user's own configuration of the client, with its plugins and credentials, stays out of tests.
    docker_config = cache_dir() / f"docker-config-{name}"
    docker_config.mkdir(parents=True, exist_ok=True)
    settings = {"cliPluginsExtraDirs": [str(path) for path in plugins or ()]}
    (docker_config / "config.json").write_text(json.dumps(settings))
    return Engine(name, version, path, docker_config)


def _version(path: str) -> tuple[int, int]:
    dockerd = shutil.which("dockerd", path=path)
    if dockerd is None:
        raise Refusal("no dockerd is installed")
    answer = subprocess.run([dockerd, "--version"], check=False, capture_output=True, text=True)
    found = re.search(r"version (\d+)\.(\d+)", answer.stdout)
    if found is None:
        reason = (answer.stderr or answer.stdout).strip().splitlines()
        raise Refusal(f"{dockerd} does not run here: {reason[-1] if reason else 'no answer'}")
    return int(found[1]), int(found[2])


def main() -> int:
    """Fetches an engine and prints where its programs are; the exit status is 1 where there is none."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.engine.obtain", description="Fetch a Docker to test with."
    )
    parser.add_argument("engine", nargs="?", choices=ENGINES, help="default: see CONTRIBUTING.md")
    name = parser.parse_args().engine

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        engine = obtain(name, say)
    except Refusal as refusal:
        say(str(refusal))
        return 1
    say(f"test engine: Docker {engine.version[0]}.{engine.version[1]} ({engine.name})")
    print(engine.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

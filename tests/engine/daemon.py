"""A dockerd of a test's own: started in well under a second, and ended with everything that it started.

It runs in a mount namespace and a network namespace of its own. Its mounts, bridges and shims vanish with it,
and `plugin_dir` is what it sees as /run/docker/plugins: this daemon alone sees sockets there, so a dead
one delays nobody else. It needs root, runc and a mounted cgroup hierarchy of either version.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.engine import leftovers, ping
from tests.engine.image import IMAGE, image_archive
from tests.engine.obtain import Engine

START_TIMEOUT = 30.0
STOP_TIMEOUT = 20.0
#: The first Compose that knows `gpus:`, and CDI names among `devices:`.
COMPOSE_WITH_CDI = (2, 30)

# No bridge and no firewall rules: containers that name no network get none. Flags and daemon.json may not
# both name an option, so what tests vary (plugins, CDI, runtimes, builder) stays out of the flags.
FLAGS = (
    "--bridge=none",
    "--iptables=false",
    "--ip6tables=false",
    "--storage-driver=vfs",
    "--shutdown-timeout=1",
    "--exec-opt=native.cgroupdriver=cgroupfs",
)

# In the daemon's namespaces, before it: "$1" is its plugin directory, the rest its command. A tmpfs over
# /run/containerd takes the sockets of shims, which have no other place.
ENTER = """\
mount --bind "$1" /run/docker/plugins
mount -t tmpfs -o mode=711 shims /run/containerd
ip link set lo up
shift
exec "$@"
"""


class DaemonError(Exception):
    """dockerd did not do what the test needs; the message ends with its log."""


class Daemon:
    """One dockerd, below `directory`.

    `configuration` is merged over the daemon.json that tests start from: CDI on, specs from `cdi_dir` alone.
    As a context manager it is started on entry and ended, with its directory, on exit.
    """

    def __init__(
        self,
        engine: Engine,
        configuration: Mapping[str, object] | None = None,
        *,
        plugin_dir: Path | None = None,
        flags: Sequence[str] = FLAGS,
    ) -> None:
        self.engine = engine
        # Short, since the path of a unix socket has at most 107 bytes (unix(7)).
        self.directory = Path(tempfile.mkdtemp(prefix="gate-engine-"))
        self.plugin_dir = plugin_dir or self.directory / "plugins"
        self.cdi_dir = self.directory / "cdi"
        self.socket = self.directory / "docker.sock"
        self.data_root = self.directory / "data"
        self.exec_root = self.directory / "exec"
        self.config_file = self.directory / "daemon.json"
        self.log_file = self.directory / "dockerd.log"
        self.cgroup = self.directory.name
        self.flags = tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None
        self._mount_namespace: str | None = None
        for directory in (self.plugin_dir, self.cdi_dir):
            directory.mkdir(parents=True, exist_ok=True)
        self.configure(configuration or {})

    @property
    def host(self) -> str:
        """The address of its API, as DOCKER_HOST takes it."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """The process id of dockerd. Raises `DaemonError` while it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise self._error("dockerd does not run")
        return self._process.pid

    def configure(self, configuration: Mapping[str, object]) -> None:
        """Writes daemon.json; a running daemon sees it after `reload` or `restart`."""
        base = {"features": {"cdi": True}, "cdi-spec-dirs": [str(self.cdi_dir)]}
        self.config_file.write_text(json.dumps({**base, **configuration}, indent=2))

    def start(self) -> None:
        """Returns once the API answers, a refusal by a plugin included.

        Raises `DaemonError` where dockerd ends first or takes more than half a minute.
        """
        for directory in ("/run/docker/plugins", "/run/containerd"):
            Path(directory).mkdir(parents=True, exist_ok=True)
        command = [self.engine.program("dockerd"), *self._arguments()]
        enter = ["unshare", "--mount", "--net", "--propagation=slave", "--", "sh", "-euc", ENTER, "sh"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*enter, str(self.plugin_dir), *command],
                env=self.engine.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends dockerd and all that it started: containers, shims, containerd, mounts and cgroups."""
        leftovers.kill_cgroup(self.cgroup)
        self._end_dockerd()
        if self._mount_namespace:
            leftovers.kill_namespace(self._mount_namespace)
        leftovers.remove_cgroup(self.cgroup)
        self._mount_namespace = None

    def restart(self) -> None:
        """Ends dockerd as a service manager does and starts it: restart policies and daemon.json take effect.

        Each container that ignores SIGTERM takes its own stop time-out, 10 s by default.
        """
        self._end_dockerd()
        self.stop()
        self.start()

    def reload(self) -> None:
        """Sends SIGHUP and returns once dockerd has read daemon.json."""
        seen = self.log().count("Reloaded configuration")
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + 10
        while self.log().count("Reloaded configuration") == seen:
            if time.monotonic() > deadline:
                raise self._error("dockerd did not reload")
            time.sleep(0.02)

    def close(self) -> None:
        """Ends it, at once since nothing of it is kept, and removes its directory."""
        if self._process:
            self._process.kill()
        self.stop()
        shutil.rmtree(self.directory)

    def docker(
        self,
        *arguments: str,
        check: bool = True,
        timeout: float = 60,
        input: str | None = None,  # noqa: A002 - subprocess's own name for it
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the Docker client (``compose`` and ``buildx`` too) against this daemon.

        Raises `DaemonError` with the client's and the daemon's words where it fails, unless `check` is false.
        """
        done = subprocess.run(
            [self.engine.program("docker"), *arguments],
            check=False,
            env={**self.engine.environment, "DOCKER_HOST": self.host},
            capture_output=True,
            text=True,
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            cwd=cwd or self.directory,
        )
        if check and done.returncode != 0:
            raise self._error(f"docker {' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
        return done

    def compose(
        self, text: str, *arguments: str, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``docker compose`` on a file with this text; the project is called ``project``."""
        file = self.directory / "compose.yaml"
        file.write_text(text)
        return self.docker(
            "compose", "-p", "project", "-f", str(file), *arguments, check=check, timeout=timeout
        )

    def compose_version(self) -> tuple[int, int]:
        """The version of the client's Compose, which need not fit the engine's."""
        major, minor, *_ = self.docker("compose", "version", "--short").stdout.removeprefix("v").split(".")
        return int(major), int(minor)

    def load_image(self, name: str = IMAGE) -> None:
        """Imports the busybox image through the API: a plugin must allow it."""
        archive = self.directory / "image.tar"
        if not archive.exists():
            archive.write_bytes(image_archive())
        self.docker("import", str(archive), name)

    def log(self) -> str:
        """All that dockerd has written."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.directory)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _arguments(self) -> list[str]:
        return [
            f"--config-file={self.config_file}",
            f"--data-root={self.data_root}",
            f"--exec-root={self.exec_root}",
            f"--pidfile={self.directory / 'dockerd.pid'}",
            f"--host={self.host}",
            f"--cgroup-parent=/{self.cgroup}",
            *self.flags,
        ]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not ping.answers(self.socket):
            if time.monotonic() > deadline:
                raise self._error(f"dockerd did not answer within {START_TIMEOUT:.0f} s")
            self._mount_namespace = leftovers.own_mount_namespace(self.pid) or self._mount_namespace
            time.sleep(0.02)
        self._mount_namespace = leftovers.own_mount_namespace(self.pid)

    def _end_dockerd(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _error(self, message: str) -> DaemonError:
        tail = "\n".join(self.log().splitlines()[-25:])
        return DaemonError(f"{message}\n--- last lines of dockerd's log ---\n{tail}")

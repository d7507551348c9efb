"""Repositories that renet made, on a machine of a test's own, with their daemons in the foreground."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from grants_cli.register import Repository
from grants_cli.store import GrantStore
from machine_setup.repository import daemon
from tests.engine import ping
from tests.engine.image import IMAGE, image_archive
from tests.engine.machine import SOURCE, Machine, MachineError
from tests.engine.obtain import Engine

START_TIMEOUT = 40.0


class Repositories(Machine):
    """A machine whose repositories are created by ``renet repo create`` and run by ``renet repo run``.

    `namespace` is the network namespace that everything of it runs in; without, the test's own.
    """

    def __init__(self, engine: Engine, namespace: str = "") -> None:
        super().__init__(engine)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.prefix = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``renet`` where this machine's engine and network are."""
        done = subprocess.run(
            [*self.prefix, sys.executable, "-m", "machine_setup.renet", *arguments],
            check=False, env=self.environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise MachineError(f"renet {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done

    def answer(self, *arguments: str) -> dict[str, object]:
        """The data that ``renet … -o json`` gives."""
        data: dict[str, object] = json.loads(self.command(*arguments, "-o", "json").stdout)["data"]
        return data

    def answer_list(self) -> list[dict[str, object]]:
        """The data of ``renet repo list``."""
        data: list[dict[str, object]] = json.loads(self.command("repo", "list", "-o", "json").stdout)["data"]
        return data

    @property
    def environment(self) -> dict[str, str]:
        """What renet sees: this machine's files and this test's engine."""
        return {**self.engine.environment, "PYTHONPATH": str(SOURCE), "REDIACC_ROOT": str(self.directory)}

    def create(self, name: str, *options: str, image: bool = True) -> Repository:
        """Create the repository and start its daemon, with the busybox image unless `image` is false."""
        self.command("repo", "create", name, *(options or ("--network", "host")))
        self.restart_gate()
        self.run(name)
        if image:
            archive = self.directory / "image.tar"
            archive.write_bytes(image_archive())
            self.docker(name, "import", str(archive), IMAGE)
        return self.repository(name)

    def repository(self, name: str) -> Repository:
        """What the register says of it."""
        return GrantStore(self.layout).read_register().get(name)

    def restart_gate(self) -> None:
        """Let the gate listen for every repository that there is now."""
        self.stop_gate(signal.SIGINT)
        self.start_gate()

    def run(self, name: str) -> None:
        """Start ``renet repo run`` and return once the daemon answers."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "machine_setup.renet", "repo", "run", name],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while not ping.answers(self.repository(name).socket):
            if self._running[name].poll() is not None or time.monotonic() > deadline:
                raise MachineError(f"{name} does not run:\n{self.log(name).read_text()[-4000:]}")
            time.sleep(0.05)

    def log(self, name: str) -> Path:
        """What its daemon has written."""
        return self.directory / f"{name}.out"

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """End ``renet repo run``; its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(60)

    def wait(self, name: str) -> int:
        """Wait until ``renet repo run`` has ended; its exit status."""
        return self._running.pop(name).wait(60)

    def daemon_pid(self, name: str) -> int:
        """The process id of its dockerd."""
        pid = daemon.find(self.repository(name))
        if pid is None:
            raise MachineError(f"the daemon of {name} does not run:\n{self.log(name).read_text()[-4000:]}")
        return pid

    def reload(self, name: str) -> None:
        """Let its dockerd read daemon.json again, and return when it has."""
        seen = self.log(name).read_text().count("Reloaded configuration")
        os.kill(self.daemon_pid(name), signal.SIGHUP)
        deadline = time.monotonic() + 10
        while self.log(name).read_text().count("Reloaded configuration") == seen:
            if time.monotonic() > deadline:
                raise MachineError(f"{name} did not reload:\n{self.log(name).read_text()[-2000:]}")
            time.sleep(0.02)

    def docker(
        self, name: str, *arguments: str, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the Docker client against the repository's daemon."""
        done = subprocess.run(
            [*self.prefix, self.engine.program("docker"), *arguments],
            check=False,
            env={**self.engine.environment, "DOCKER_HOST": f"unix://{self.repository(name).socket}"},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            log = self.log(name).read_text()[-3000:]
            raise MachineError(f"docker {' '.join(arguments)}: {done.stderr}{done.stdout}\n{log}")
        return done

    def opens(self, name: str, device: str = "nvidia.com/gpu=0", node: str = "/dev/nvidia0") -> str:
        """Empty when a new container of the repository opens `node` of `device`, else what was said."""
        done = self.docker(
            name, "run", "--rm", "--network=none", "--device", device, IMAGE, "open-device", node, check=False
        )
        return "" if done.stdout == f"opened {node}\n" else done.stderr + done.stdout

    def close(self) -> None:
        """End the daemons, then everything else."""
        for name in list(self._running):
            with suppress(subprocess.TimeoutExpired):
                self.end(name)
        for repository in GrantStore(self.layout).read_register().repositories:
            if repository.managed:
                daemon.end_everything(repository)
        self.stop_gate(signal.SIGINT)
        super().close()

"""A machine of a test's own: its files below a temporary root, its gate, its repositories' daemons."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from grants_cli.store import read_register
from spec.layout import Layout
from tests.engine import ping, stand_in
from tests.engine.daemon import Daemon
from tests.engine.obtain import Engine

SOURCE = Path(__file__).parents[2]
START_TIMEOUT = 15.0


class MachineError(Exception):
    """The machine did not do what the test needs; the message ends with the gate's words."""


class Machine:
    """Everything of one machine below `layout`, with the GPU stand-ins in its /etc/cdi.

    As a context manager it ends its gate and its daemons, and removes its files, on exit. Plugin sockets
    are in a directory of its own, which its daemons see as /run/docker/plugins.
    """

    def __init__(self, engine: Engine) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gate-machine-"))
        self.layout = Layout.at(self.directory)
        self.engine = engine
        self._gate: subprocess.Popen[bytes] | None = None
        self._daemons = ExitStack()
        stand_in.write_gpus(self.layout.cdi_dir)

    def renet(
        self,
        *arguments: str,
        check: bool = True,
        input: str | None = None,  # noqa: A002 - subprocess's name
    ) -> subprocess.CompletedProcess[str]:
        """Run ``renet`` on this machine; raises `MachineError` where it fails, unless `check` is false."""
        done = subprocess.run(
            [*_RENET, *arguments],
            check=False,
            env=self._environment,
            capture_output=True,
            text=True,
            input=input,
        )
        if check and done.returncode != 0:
            raise MachineError(f"renet {' '.join(arguments)}: {done.stderr}")
        return done

    def add_repository(self, name: str, configuration: Mapping[str, object] | None = None) -> Daemon:
        """Register a repository, with a daemon that has the gate as its plugin and is not started yet."""
        daemon = Daemon(
            self.engine,
            {
                "cdi-spec-dirs": [str(self.layout.cdi_dir)],
                "authorization-plugins": [f"rediacc-{name}"],
                **(configuration or {}),
            },
            plugin_dir=self.layout.plugin_dir,
        )
        self._daemons.callback(daemon.close)
        self.renet(
            "repo", "adopt", name, "--socket", str(daemon.socket), "--data-root", str(daemon.data_root),
            "--daemon-json", str(daemon.config_file),
        )  # fmt: skip
        return daemon

    def start_gate(self) -> None:
        """Start ``renet gate serve`` and return once it listens for every registered repository."""
        with self.gate_log.open("ab") as log:
            self._gate = subprocess.Popen(
                [*_RENET, "gate", "serve"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._listens():
            if self._gate.poll() is not None or time.monotonic() > deadline:
                raise MachineError(f"the gate does not listen:\n{self.gate_log.read_text()}")
            time.sleep(0.05)

    def stop_gate(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the gate, by SIGTERM unless `how` says otherwise, and return once nothing answers."""
        if self._gate:
            self._gate.send_signal(how)
            self._gate.wait(30)
            self._gate = None
        deadline = time.monotonic() + START_TIMEOUT
        while any(ping.answers(path) for path in self.layout.plugin_dir.glob("*.sock")):
            # A worker outlives its killed master by the second in which it notices.
            if time.monotonic() > deadline:
                raise MachineError("the gate still answers after its end")
            time.sleep(0.05)

    @property
    def gate_log(self) -> Path:
        """What the gate's process has written."""
        return self.directory / "gate.out"

    def close(self) -> None:
        """End everything that was started, and remove the files."""
        try:
            self._daemons.close()
            self.stop_gate()
        finally:
            shutil.rmtree(self.directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.engine.environment, "PYTHONPATH": str(SOURCE), "REDIACC_ROOT": str(self.directory)}

    def _listens(self) -> bool:
        repositories = read_register(self.layout).repositories
        return all(ping.answers(self.layout.plugin_socket(repository.slug)) for repository in repositories)


_RENET = (sys.executable, "-m", "machine_setup.renet")

"""The two servers that are compared, and what they use of the machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.clients import connect
from grants_cli import repositories
from grants_cli.grants import Grant, Grants
from grants_cli.refs import Ref
from grants_cli.register import Register, Repository
from grants_cli.store import grants_document, register_document
from spec.files import replace_file
from spec.layout import Layout

SOURCE = Path(__file__).parents[1]
_DEVICES = 8
_TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A process that serves plugin sockets, ended on exit."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gate-bench-"))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], waiting_for: Path, **environment: str) -> Self:
        """Run the Python program `command`; returns when it listens on `waiting_for`."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **environment},
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while True:
            try:
                connect(waiting_for).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    @property
    def pids(self) -> list[int]:
        """The process and its children."""
        assert self._process is not None  # noqa: S101 - `start` comes first
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu(self) -> float:
        """Seconds of processor time that it has used, its threads that have ended included."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids]
        return sum(int(user) + int(system) for *_, user, system in (each[:13] for each in fields)) / _TICKS

    def memory(self) -> int:
        """Bytes of memory that are its own: what several of its processes share counts once (PSS)."""
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in self.pids)
        return (
            sum(int(line.split()[1]) for lines in rollups for line in lines if line.startswith("Pss:")) * 1024
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(60)
        shutil.rmtree(self.directory)


class Bare(Server):
    """The socket loop of `benchmarks.bare`."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.path = self.directory / "bare.sock"
        self.start(["benchmarks.bare", str(self.path), *options], self.path)


class Gate(Server):
    """The gate with `count` repositories, which hold `grants` grants between them; started by `serve`."""

    def __init__(self, count: int = 1, grants: int = 10) -> None:
        super().__init__()
        self.layout = Layout.at(self.directory)
        self.paths = [self.layout.plugin_socket(f"tenant-{number}") for number in range(count)]
        now = datetime.now(UTC).replace(microsecond=0)
        self._register = Register(tuple(self._repository(f"tenant-{number}", now) for number in range(count)))
        self.write_register(self._register.repositories)
        replace_file(self.layout.grants, grants_document(_grants(self._register, grants, now)), 0o600)
        replace_file(self.layout.gate_options, b"# nothing beyond the defaults\n")
        replace_file(self.layout.cdi_dir / "nvidia.json", _spec())

    def _repository(self, name: str, now: datetime) -> Repository:
        ref, guid = Ref.parse(name), repositories.new_guid()
        places = repositories.Places.managed(self.layout, ref, guid)
        settings = json.dumps({"authorization-plugins": [f"rediacc-{ref.slug}"]})
        replace_file(places.daemon_json, settings.encode())
        return Repository(guid, ref, places.socket, places.data_root, places.daemon_json, False, now)

    def write_register(self, known: Sequence[Repository]) -> None:
        """Make `known` the machine's repositories."""
        replace_file(self.layout.register, register_document(Register(tuple(known))), 0o600)

    @property
    def repositories(self) -> tuple[Repository, ...]:
        """The repositories that it began with."""
        return self._register.repositories

    def serve(self) -> Self:
        """Start it."""
        return self.start(
            ["machine_setup.renet", "gate", "serve"], self.paths[-1], REDIACC_ROOT=str(self.directory)
        )

    @property
    def path(self) -> Path:
        """The first repository's plugin socket."""
        return self.paths[0]


def _grants(register: Register, count: int, now: datetime) -> Grants:
    """`count` grants, spread over all repositories; what they name need not exist any more."""
    by_guid: dict[str, tuple[Grant, ...]] = {}
    known = register.repositories
    for number in range(count):
        guid = known[number % len(known)].guid
        name = f"nvidia.com/gpu={number // len(known)}"
        by_guid[guid] = (*by_guid.get(guid, ()), Grant(name, False, now, "root"))
    return Grants(by_guid)


def _spec() -> bytes:
    devices = [
        {"name": str(number), "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}}
        for number in range(_DEVICES)
    ]
    return json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices}).encode()

"""A machine of the test's own, with its programs, and ``renet setup`` on it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from machine_setup.renet import renet
from spec.console import run
from spec.layout import Layout
from tests.unit.machine_setup.stand_ins import StandIns
from tests.unit.machine_setup.trees import MachineTree, nvidia_machine

_PROJECT = Path(__file__).parents[3]

# What may differ between machines in the same state: what a lock file says of its last holder.
_VOLATILE = ("run/rediacc/setup.lock",)


@dataclass(frozen=True)
class Done:
    """What a set-up wrote."""

    stdout: str
    stderr: str


@dataclass(frozen=True)
class Box:
    """A machine tree and the programs on it."""

    tree: MachineTree
    stand_ins: StandIns

    @property
    def layout(self) -> Layout:
        """Its files."""
        return Layout.at(self.tree.root)

    def setup(self, *words: str, status: int = 0, **environ: str) -> Done:
        """Run ``renet setup`` on it, in this process; it has to end with `status`."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            patch.object(sys, "argv", ["renet", "setup", *words]),
            patch.dict(os.environ, {**self.stand_ins.environ, **environ}),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
            pytest.raises(SystemExit) as ended,
        ):
            run(renet, "renet")
        done = Done(stdout.getvalue(), stderr.getvalue())
        assert ended.value.code == status, done
        return done

    def process(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``renet setup`` on it as a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "machine_setup.renet", "setup", *words],
            cwd=_PROJECT,
            env={**os.environ, **self.stand_ins.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def answer(self, *words: str) -> dict[str, Any]:
        """The data of ``renet setup -o json``."""
        answer = json.loads(self.setup("-o", "json", *words).stdout)
        assert answer["ok"] is True
        data: dict[str, Any] = answer["data"]
        return data

    def error(self, *words: str, status: int = 14) -> dict[str, str]:
        """The error of ``renet setup -o json``."""
        answer = json.loads(self.setup("-o", "json", *words, status=status).stdout)
        assert answer["ok"] is False
        error: dict[str, str] = answer["error"]
        return error

    def inventory(self) -> dict[str, Any]:
        """inventory.json as it is."""
        inventory: dict[str, Any] = json.loads(self.layout.inventory.read_text())
        return inventory

    def state(self) -> dict[str, bytes | str]:
        """Everything that a set-up may change: all files and links outside sysfs, proc and dev."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.tree.root.rglob("*")):
            name = str(path.relative_to(self.tree.root))
            if name.startswith(("sys/", "proc/", "dev/")) or name in _VOLATILE:
                continue
            if path.is_symlink():
                found[name] = str(path.readlink())
            elif path.is_file():
                found[name] = path.read_bytes()
        # What systemd has read counts too: a unit that it was never told of does nothing.
        for unit in sorted((self.stand_ins.directory / "loaded").glob("*")):
            found[f"systemd:{unit.name}"] = unit.read_bytes()
        inventory = found.get("etc/rediacc/gpu/inventory.json")
        if isinstance(inventory, bytes):
            found["etc/rediacc/gpu/inventory.json"] = str({**json.loads(inventory), "generatedAt": ""})
        return found


@pytest.fixture
def box(tmp_path: Path) -> Callable[..., Box]:
    """Puts a machine and its programs together: ``box(build, "nvidia-smi", …)``."""

    def make(build: Callable[[Path], MachineTree] = nvidia_machine, *programs: str) -> Box:
        tree = build(tmp_path / "machine")
        return Box(tree, StandIns.of(tmp_path / "programs", tree.root, *programs))

    return make

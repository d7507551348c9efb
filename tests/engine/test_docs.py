"""The documents' commands, typed as they stand on a machine with the gate and two repositories."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.machine import SOURCE, Machine
from tests.engine.obtain import Engine
from tests.pages import pages_of, script


@pytest.mark.parametrize("page", pages_of("engine"))
def test_the_commands_of_a_page_work(page: str, engine: Engine, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("renet", "machine_setup.renet"), ("rdc", "grants_cli.rdc")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    with Machine(engine) as machine:
        daemons = [machine.add_repository(name) for name in ("gpu-a", "team-b")]
        machine.start_gate()
        for daemon in daemons:
            daemon.start()
            daemon.load_image()
        typed = subprocess.run(
            ["bash", "-c", script(page, "engine")],
            check=False,
            cwd=home,
            env={
                **os.environ,
                "DOCKER_CONFIG": str(engine.docker_config),
                "DOCKER_HOST": daemons[0].host,
                "HOME": str(home),
                "PATH": f"{programs}:{engine.path}",
                "PYTHONPATH": str(SOURCE),
                "REDIACC_ROOT": str(machine.directory),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert typed.returncode == 0, typed.stdout + typed.stderr

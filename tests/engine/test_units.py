"""The units of ``deploy/``, as systemd's own tools judge them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from machine_setup.repository import units
from spec.layout import Layout
from tests.unit.machine_setup.repository.test_parts import repository

INSTANCES = (
    "rediacc-docker@gpu-a.service",
    "rediacc-docker@gpu-a.socket",
    "rediacc-gate@gpu-a.socket",
    "rediacc-prepare@gpu-a.service",
)
PLAIN = ("rediacc-gate.service", "rediacc-views.service", "rediacc-views.path", "rediacc-views.timer")

# What `systemd-analyze security` may give at most (0 is fully confined, 10 not at all). dockerd is root with
# nearly everything a root has; its score says so, and what limits it is the gate and the view.
EXPOSURE = {"rediacc-gate.service": 2.5, "rediacc-views.service": 2.0, "rediacc-docker@gpu-a.service": 9.2}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as `install` and `create` put them, for a repository called gpu-a, and nothing else."""
    layout = Layout.at(tmp_path)
    units.install(layout)
    for path, content in units.drop_ins(layout, repository(Layout.at("/"))).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    # Programs that a test machine need not have.
    for program in ("renet", "dockerd"):
        fake = tmp_path / "bin" / program
        fake.parent.mkdir(exist_ok=True)
        fake.write_text("#!/bin/sh\n")
        fake.chmod(0o755)
    for unit in layout.unit_dir.glob("*.service"):
        called = r"^(Exec\w+=\+?)\S*?(?:renet|python\S* -m machine_setup.renet)(?= )"
        text = re.sub(called, rf"\1{tmp_path}/bin/renet", unit.read_text(), flags=re.MULTILINE)
        unit.write_text(text.replace("ExecStart=dockerd", f"ExecStart={tmp_path}/bin/dockerd"))
    return layout.unit_dir


def analyze(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{directory}:", "SYSTEMD_COLORS": "0"}
    return subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )


def instance(directory: Path, name: str) -> Path:
    """The file of an instance of a template, which systemd-analyze wants by name."""
    path = directory / name
    template = directory / re.sub(r"@.*\.", "@.", name)
    if not path.exists():
        shutil.copy(template, path)
    return path


@pytest.mark.parametrize("name", [*INSTANCES, *PLAIN])
def test_systemd_has_no_complaint(installed: Path, name: str) -> None:
    done = analyze(installed, "verify", "--man=no", str(instance(installed, name)))
    ours = [line for line in done.stderr.splitlines() if "rediacc" in line or str(installed) in line]
    assert ours == []


@pytest.mark.parametrize("name", EXPOSURE)
def test_exposure(installed: Path, name: str) -> None:
    path = instance(installed, name)
    limit = round(EXPOSURE[name] * 10)
    done = analyze(installed, "security", "--offline=yes", f"--threshold={limit}", "--no-pager", str(path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_a_misspelt_setting_would_be_found(installed: Path) -> None:
    path = installed / "rediacc-gate.service"
    path.write_text(path.read_text().replace("PrivateNetwork=yes", "PrivatNetwork=yes"))
    assert "PrivatNetwork" in analyze(installed, "verify", "--man=no", str(path)).stderr


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    assert units.install(layout)
    assert units.install(layout) == ()
    (layout.unit_dir / "rediacc-gate.service").write_text("[Service]\n")
    assert [path.name for path in units.install(layout)] == ["rediacc-gate.service"]

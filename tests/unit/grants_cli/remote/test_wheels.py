"""This version as a wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

from grants_cli.remote import wheels
from spec import __version__


def test_the_source_tree_and_what_is_installed_from_it_are_one_release(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    built = wheels.own_release(tmp_path / "built")
    assert built.name.startswith(f"{__version__}-")

    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run([*pip, "--target", site, built.wheel], check=True)
    (tmp_path / "packed").mkdir()
    script = "import sys; from pathlib import Path; from grants_cli.remote import wheels\n"
    script += "found = wheels.own_release(Path(sys.argv[1])); print(found.name, found.wheel)"
    command = [sys.executable, "-c", script, str(tmp_path / "packed")]
    shown = subprocess.run(
        command, env={"PYTHONPATH": str(site)}, cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert shown[0] == built.name

    with zipfile.ZipFile(shown[1]) as packed, zipfile.ZipFile(built.wheel) as original:
        assert sorted(packed.namelist()) == sorted(original.namelist())
        assert packed.testzip() is None
    again = tmp_path / "again"
    subprocess.run([*pip, "--target", again, shown[1]], check=True)
    assert (again / "grants_cli/remote/launcher.py").exists()


def test_pip_comes_along_and_runs_from_its_wheel(tmp_path: Path) -> None:
    wheel = wheels.pip_wheel(tmp_path)
    shown = subprocess.run(
        [sys.executable, f"{wheel}/pip", "--version"], capture_output=True, text=True, check=True
    )
    assert str(wheel) in shown.stdout

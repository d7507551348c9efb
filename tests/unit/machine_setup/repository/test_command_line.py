"""Taking flags from a daemon's command line, and a unit that says what is left."""

import shutil
import subprocess
from pathlib import Path

import pytest

from machine_setup.repository import flags
from machine_setup.repository.command_line import drop_in, leaves_open, unwanted

LINE = [
    "dockerd", "-H", "fd://", "-Htcp://0.0.0.0:2375", "--host=unix:///run/x.sock", "-D", "--label", "a b",
    "--authorization-plugin", "one", "--feature=cdi=false", "--feature=other=true", "--experimental",
]  # fmt: skip


def test_only_what_is_unwanted_goes_and_its_value_with_it() -> None:
    kept = flags.without(LINE, unwanted({"authorization-plugins": ["one"], "debug": True}))
    assert kept == [
        "dockerd", "-H", "fd://", "--host=unix:///run/x.sock", "--label", "a b", "--feature=other=true",
    ]  # fmt: skip
    assert flags.without(LINE, lambda name, value: False) == LINE


@pytest.mark.parametrize(
    ("name", "value", "open_"),
    [
        ("host", "tcp://127.0.0.1:2375", True),
        ("host", "fd://", False),
        ("default-runtime", "nvidia", True),
        ("default-runtime", "runc", False),
        ("add-runtime", "nvidia=/usr/bin/nvidia-container-runtime", True),
        ("experimental", "true", True),
        ("experimental", "false", False),
        ("nri-opts", "enable=true", True),
        ("nri-opts", "enable=false", False),
        ("feature", "cdi=false", True),
        ("feature", "cdi=true", False),
        ("label", "x", False),
    ],
)
def test_what_leaves_something_open(name: str, value: str, open_: bool) -> None:
    assert leaves_open(name, value) is open_


def test_systemd_reads_back_the_words_that_were_written(tmp_path: Path) -> None:
    words = ["plain", "with space", 'a "quote"', "back\\slash", "$HOME 100%", "", "it's; ok", "%n"]
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "words.service"
    unit.write_text(drop_in("", program, ["program", *words], lambda name, value: False))
    systemd = shutil.which("systemd-analyze")
    assert systemd
    done = subprocess.run([systemd, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "words.service" not in done.stderr
    line = unit.read_text().splitlines()[-1]
    assert line.startswith(f"ExecStart={program} plain ")
    assert '"with space"' in line
    assert '"a \\"quote\\""' in line
    assert '"back\\\\slash"' in line
    assert '"$$HOME 100%%"' in line
    assert line.endswith(' "" "it\'s; ok" %%n')

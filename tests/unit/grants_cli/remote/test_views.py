"""How answers look to a person."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grants_cli.remote import answers, views

ROOT = Path(__file__).resolve().parents[4]
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
STATUS: dict[str, Any] = {
    "inventory": {
        "version": 1,
        "generatedAt": "2026-01-31T09:00:00Z",
        "platform": "wsl",
        "gpus": [
            {
                "index": 0,
                "vendor": "nvidia",
                "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                "memoryMiB": 97887,
                "driver": "nvidia",
                "driverVersion": "580.126.09",
            },
            {
                "index": 1,
                "vendor": "intel",
                "name": "Intel DG2",
                "memoryMiB": None,
                "driver": None,
                "driverVersion": None,
            },
        ],
        "warnings": ["the driver has changed"],
    },
    "devices": [f"nvidia.com/gpu=GPU-{n}a6a2c5d-1c5b-4a5e-9c5d-0123456789ab" for n in range(2)]
    + ["nvidia.com/gpu=all"],
    "grants": [
        {
            "repository": "gpu-a:test",
            "device": "nvidia.com/gpu=all",
            "exclusive": True,
            "expiresAt": "2026-01-31T18:00:00Z",
        },
        {"repository": "gpu-b", "device": "nvidia.com/gpu=gone", "exclusive": False, "expiresAt": None},
    ],
}


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    views.gpus("lab", answers.status(STATUS), NOW)
    return capsys.readouterr().out


def test_everything_that_an_operator_asks_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)
    for word in (
        "lab: WSL, inventory 3 hours old",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "nvidia 580.126.09",
        "97887 MiB",
        "Intel DG2",
        *STATUS["devices"],
        "gpu-a:test (exclusive, until 2026-01-31T18:00:00Z)",
        "nvidia.com/gpu=gone (no spec defines it)",
    ):
        assert word in text
    row = next(line for line in text.splitlines() if "gpu=all" in line)
    assert "gpu-a:test" in row


def on_terminal(columns: int) -> str:
    """What a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    script = (
        "import json, sys; from datetime import datetime; from grants_cli.remote import answers, views\n"
        "views.gpus('lab', answers.status(json.loads(sys.argv[1])), datetime.fromisoformat(sys.argv[2]))"
    )
    environ = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    subprocess.run(
        [sys.executable, "-c", script, json.dumps(STATUS), NOW.isoformat()],
        stdout=theirs,
        check=True,
        env=environ | {"TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": os.fspath(ROOT)},
    )
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal with EIO
        while block := os.read(ours, 65536):
            text += block
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode())


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_of_any_width_is_enough(columns: int) -> None:
    text = on_terminal(columns)
    assert max(map(len, text.splitlines())) <= columns
    whole = [line for line in text.splitlines() if "Blackwell Server Edition" in line and "97887 MiB" in line]
    assert whole or columns == 80
    # Folded or not, nothing is cut off.
    for word in ("Blackwell", "97887", "580.126.09", "nvidia.com/gpu=all", "exclusive"):
        assert word in text


def test_what_is_piped_is_whole_and_plain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = shown(capsys)
    assert "\x1b" not in text
    assert any("Blackwell Server Edition" in line and "97887 MiB" in line for line in text.splitlines())


def test_a_machine_that_is_not_set_up_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    views.gpus("lab", answers.status({"inventory": None, "devices": [], "grants": []}), NOW)
    assert "rdc machine setup lab" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-01-31T12:00:00Z", "new"),
        ("2026-01-31T11:59:00Z", "1 minute old"),
        ("2026-01-31T10:00:00Z", "2 hours old"),
        ("2026-01-28T10:00:00Z", "3 days old"),
        ("2026-02-28T10:00:00Z", "from the future: check the clocks"),
        ("", "of unknown age"),
    ],
)
def test_age(moment: str, text: str) -> None:
    assert views.age(moment, NOW) == text


def test_help_has_examples_everywhere() -> None:
    from grants_cli.rdc import rdc

    for words in (
        ["repo", "gpu", "grant"],
        ["machine", "setup"],
        ["repo", "fork"],
        ["machine", "gpu", "list"],
    ):
        text = CliRunner().invoke(rdc, [*words, "--help"]).output
        assert "\n  rdc " in text, words


def test_the_doctor_names_each_failure_with_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    one = {
        "id": "gate",
        "status": "failure",
        "repository": "",
        "found": "no gate runs",
        "why": "w",
        "fix": "start it",
    }
    two = {"id": "mode", "status": "ok", "repository": "gpu-a", "found": "mode 660", "why": "", "fix": ""}
    views.doctor("lab", {"healthy": False, "findings": [two, one]}, verbose=False)
    text = capsys.readouterr().out
    assert "failure lab: no gate runs [gate]\n    why: w\n    fix: start it" in text
    assert "lab: 1 failures, 0 warnings, 1 checks in order" in text
    assert "mode 660" not in text
    views.doctor("lab", {"healthy": False, "findings": [two, one]}, verbose=True)
    assert "ok gpu-a@lab: mode 660 [mode]" in capsys.readouterr().out


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_is_for_terminals_without_no_color(no_color: str, coloured: bool) -> None:
    script = (
        "import click; from spec.console import run\n"
        "run(click.Command('x', callback=lambda: click.echo(click.style('word', fg='red'))), 'x')"
    )
    ours, theirs = pty.openpty()
    environ = os.environ | {"NO_COLOR": no_color, "PYTHONPATH": os.fspath(ROOT)}
    subprocess.run([sys.executable, "-c", script], stdout=theirs, check=True, env=environ)
    os.close(theirs)
    assert (b"\x1b" in os.read(ours, 100)) is coloured
    os.close(ours)

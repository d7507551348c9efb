"""``rdc machine add|list|remove``, as they are typed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
Rdc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def rdc(tmp_path: Path) -> Rdc:
    """`rdc` with a home of its own, and without a machine of its own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("XDG")}
    environ |= {"HOME": str(tmp_path), "PYTHONPATH": os.fspath(ROOT), "REDIACC_ROOT": str(tmp_path / "root")}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "grants_cli.rdc", *words]
        return subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_machine_is_added_listed_and_removed(rdc: Rdc, tmp_path: Path) -> None:
    added = rdc("machine", "add", "lab", "--host", "ops@lab.example.org", "--port", "2222")
    assert (added.returncode, "rdc machine setup lab" in added.stdout) == (0, True)
    assert (tmp_path / ".config/rediacc/rediacc.json").stat().st_mode & 0o777 == 0o600
    listed = json.loads(rdc("machine", "list", "-o", "json").stdout)
    assert listed == {
        "ok": True,
        "data": [{"name": "lab", "host": "lab.example.org", "user": "ops", "port": 2222}],
    }
    assert "ops@lab.example.org" in rdc("machine", "list").stdout
    assert rdc("machine", "remove", "lab").returncode == 0
    assert json.loads(rdc("machine", "list", "-o", "json").stdout)["data"] == []


def test_adding_it_again_is_done_already_and_elsewhere_is_refused(rdc: Rdc) -> None:
    assert rdc("machine", "add", "lab", "--host", "one").returncode == 0
    assert rdc("machine", "add", "lab", "--host", "one").returncode == 0
    refused = rdc("machine", "add", "lab", "--host", "two")
    assert refused.returncode == 4
    assert "rdc machine remove lab" in refused.stderr
    assert '"one"' in rdc("machine", "list", "-o", "json").stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("machine", "add", "La b", "--host", "x"), 2, "'L' at position 1"),
        (("machine", "add", "local", "--host", "x"), 2, "this machine itself"),
        (("machine", "add", "x", "--host", "-oProxyCommand=id"), 2, "not an address"),
        (("machine", "add", "x"), 2, "--host"),
        (("machine", "remove", "nowhere"), 5, "there is no machine nowhere"),
        (("machine", "remove", "local"), 2, "not in the list"),
        (("machine", "gpu", "list", "nowhere"), 5, "there is no machine nowhere"),
        (("machine", "gpu", "list", "local", "--all"), 2, "leave one of the two out"),
        (("repo", "gpu", "grant", "gpu_a", "--device", "x"), 2, "'_' at position 4"),
        (("repo", "gpu", "grant", "gpu-a"), 2, "which device?"),
        (("repo", "gpu", "revoke", "gpu-a"), 2, "which device?"),
        (
            ("repo", "gpu", "grant", "gpu-a@m1", "-m", "m2", "--device", "x"),
            12,
            "m1 and, by the option, on m2",
        ),
        (("repo", "fork", "gpu-a@m1", "copy@m2"), 12, "stays on its parent's machine"),
        (("repo", "list", "--timeout", "0"), 2, "--timeout"),
    ],
)
def test_what_is_wrong_is_said_before_any_machine_is_asked(
    rdc: Rdc, words: tuple[str, ...], status: int, said: str
) -> None:
    done = rdc(*words)
    assert (done.returncode, said in done.stderr) == (status, True), done
    error = json.loads(rdc(*words, "-o", "json").stdout)
    assert error["ok"] is False
    assert error["error"]["message"]


def test_deleting_asks_first(rdc: Rdc) -> None:
    done = rdc("repo", "delete", "gpu-a@local")
    assert done.returncode == 130
    assert "delete gpu-a@local and everything in it?" in done.stderr

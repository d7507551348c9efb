"""What a shell is offered, and what it never has to wait for."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from grants_cli.rdc import rdc
from grants_cli.remote import cache, machines


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    known = machines.Machines()
    for name in ("m1", "m2"):
        known = known.with_machine(machines.machine(name, name, None))
    machines.write(known)
    return tmp_path


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were started in the background, instead of starting them."""
    programs: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: programs.append(words))
    return programs


def offered(line: str) -> list[str]:
    """What is offered for the word at the end of `line`."""
    *words, incomplete = line.split(" ")
    found = ShellComplete(rdc, {}, "rdc", "_RDC_COMPLETE").get_completions(words[1:], incomplete)
    return [item.value for item in found if not item.value.startswith("-")]


def remember() -> None:
    cache.remember("m1", repositories=["gpu-a", "both"], devices=["x.org/gpu=0"])
    cache.remember("m2", repositories=["gpu-b:test", "both"], devices=["x.org/gpu=1"])


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("rdc machine setup ", ["local", "m1", "m2"]),
        ("rdc machine remove m", ["m1", "m2"]),
        ("rdc repo gpu grant ", ["both@m1", "both@m2", "gpu-a", "gpu-b:test"]),
        ("rdc repo gpu grant gpu-a@", ["gpu-a@m1"]),
        ("rdc repo gpu grant gpu-a@m1 --device ", ["x.org/gpu=0"]),
        ("rdc repo gpu grant gpu-a --device ", ["x.org/gpu=0", "x.org/gpu=1"]),
        ("rdc repo create new@", ["new@local", "new@m1", "new@m2"]),
        ("rdc repo gpu ", ["explain", "grant", "list", "revoke", "who"]),
    ],
)
def test_names_that_machines_told(line: str, values: list[str], started: list[Any]) -> None:
    remember()
    assert offered(line) == values
    assert not started


def test_old_names_are_offered_once_more_and_fetched_anew_once(started: list[Any]) -> None:
    remember()
    known = json.loads(cache.path().read_text())
    known["m1"]["at"] = time.time() - cache.FRESH_SECONDS - 1
    cache.path().write_text(json.dumps(known))
    assert "gpu-a" in offered("rdc repo gpu list ")
    assert offered("rdc repo gpu list g")
    assert [words[-1] for words in started] == [cache.REFRESH]


def test_very_old_names_are_not_offered(started: list[Any]) -> None:
    remember()
    known = json.loads(cache.path().read_text())
    for entry in known.values():
        entry["at"] = time.time() - cache.LONGEST_SECONDS - 1
    cache.path().write_text(json.dumps(known))
    assert offered("rdc repo gpu list ") == []
    assert started


@pytest.mark.parametrize(
    "content", ["", "[]", '{"m1": 1}', '{"m1": {"repositories": 1, "at": 1e12}}', "\x00"]
)
def test_a_damaged_cache_offers_nothing_and_breaks_nothing(content: str) -> None:
    cache.path().parent.mkdir(parents=True)
    cache.path().write_text(content)
    assert offered("rdc repo gpu list ") == []
    remember()
    assert "gpu-a" in offered("rdc repo gpu list ")


def test_the_cache_is_the_owners_alone() -> None:
    remember()
    assert cache.path().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("module", "variable"),
    [("grants_cli.rdc", "_RDC_COMPLETE"), ("machine_setup.renet", "_RENET_COMPLETE")],
)
def test_each_shell_has_its_script(
    module: str, variable: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    command = [sys.executable, "-m", module, "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{variable}={shell}_complete" in script

"""The file that says where machines are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grants_cli.remote import machines
from grants_cli.remote.machines import Machine, Machines
from spec.errors import BusyError, InvalidNameError, NotFoundError, UntrustedError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config/rediacc/rediacc.json"


def test_what_is_written_is_read_again_and_is_the_owners_alone(path: Path) -> None:
    known = Machines().with_machine(machines.machine("lab", "ops@lab.example.org", 2222))
    known = known.with_machine(machines.machine("attic", "attic", None))
    machines.write(known, path)
    assert machines.read(path) == known
    assert machines.read(path).get("lab") == Machine("lab", "lab.example.org", "ops", 2222)
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_there_are_no_machines(path: Path) -> None:
    assert machines.read(path) == Machines()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(path: Path, mode: int) -> None:
    machines.write(Machines(), path)
    path.chmod(mode)
    with pytest.raises(UntrustedError, match="written by others"):
        machines.read(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "machines": {}}',
        '{"version": 1}',
        '{"version": 1, "machines": {"lab": {}}}',
        '{"version": 1, "machines": {"lab": {"host": 1}}}',
        '{"version": 1, "machines": {"lab": {"host": "-oProxyCommand=id"}}}',
        '{"version": 1, "machines": {"lab": {"host": "lab", "port": "22"}}}',
        '{"version": 1, "machines": {"lab": {"host": "lab", "port": true}}}',
        '{"version": 1, "machines": {"lab": {"host": "lab", "port": 65536}}}',
        '{"version": 1, "machines": {"La": {"host": "lab"}}}',
        '{"version": 1, "machines": {"local": {"host": "lab"}}}',
    ],
)
def test_a_file_of_another_form_is_refused_and_kept(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(UntrustedError):
        machines.read(path)
    assert path.read_text() == content


@pytest.mark.parametrize(
    "host",
    [
        "",
        "@lab",
        "-oProxyCommand=id",
        "ops@-oX",
        "-x@lab",
        "lab;id",
        "$(id)",
        "a b",
        "lab\n",
        "`id`",
        "o'ps@lab",
        "lab|id",
    ],
)
def test_an_address_that_a_shell_or_ssh_could_misread_is_refused(host: str) -> None:
    with pytest.raises(InvalidNameError):
        machines.machine("lab", host, None)


def test_the_local_machine_needs_no_address() -> None:
    assert Machines().get("local").is_local
    with pytest.raises(InvalidNameError):
        machines.machine("local", "lab", None)


def test_an_unknown_machine_is_answered_with_near_misses() -> None:
    known = Machines().with_machine(machines.machine("lab-1", "lab", None))
    with pytest.raises(NotFoundError) as caught:
        known.get("lab1")
    assert caught.value.exit_status == 5
    assert "lab-1" in caught.value.hint


def test_the_local_machine_counts_once_it_is_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIACC_ROOT", str(tmp_path))
    assert [m.name for m in Machines().all()] == ["local"]
    known = Machines().with_machine(machines.machine("lab", "lab", None))
    assert [m.name for m in known.all()] == ["lab"]
    (tmp_path / "etc/rediacc").mkdir(parents=True)
    (tmp_path / "etc/rediacc/repositories.json").write_text("{}")
    assert [m.name for m in known.all()] == ["local", "lab"]


def test_two_at_once_lose_nothing(path: Path) -> None:
    add = (
        "import sys; from pathlib import Path; from grants_cli.remote import machines\n"
        "path = Path(sys.argv[1])\n"
        "for n in range(8):\n"
        "    with machines.lock(path):\n"
        "        known = machines.read(path)\n"
        "        new = machines.machine(f'{sys.argv[2]}-{n}', 'lab', None)\n"
        "        machines.write(known.with_machine(new), path)\n"
    )
    environ = {**os.environ, "PYTHONPATH": "."}
    started = [subprocess.Popen([sys.executable, "-c", add, path, name], env=environ) for name in "abc"]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    assert len(json.loads(path.read_text())["machines"]) == 24


def test_a_lock_that_is_held_is_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LOCK_SECONDS", 0.1)
    with machines.lock(path), pytest.raises(BusyError) as caught, machines.lock(path):
        pass
    assert caught.value.exit_status == 15

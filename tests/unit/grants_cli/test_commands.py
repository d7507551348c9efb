"""``renet gpu grant|revoke|list`` as an operator and a script see them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grants_cli.store import GrantStore
from spec.layout import Layout
from tests.unit.grants_cli.conftest import register
from tests.unit.grants_cli.specs import CONTROL, NVIDIA, write_spec
from tests.unit.grants_cli.test_lock import holder

CHECKOUT = Path(__file__).parents[3]
Result = subprocess.CompletedProcess[str]


def renet(layout: Layout, *words: str) -> Result:
    command = [sys.executable, "-m", "machine_setup.renet", "--root", str(layout.root), *words]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60, env=environment
    )


@pytest.fixture
def machine(layout: Layout) -> Layout:
    write_spec(layout, "nvidia.com/gpu", NVIDIA, CONTROL)
    register(layout, "gpu-a")
    register(layout, "gpu-b")
    return layout


def data(result: Result) -> dict[str, object]:
    answer = json.loads(result.stdout)
    assert (result.returncode, answer["ok"]) == (0, True), result.stdout
    assert isinstance(answer["data"], dict)
    return answer["data"]


def error(result: Result, status: int) -> dict[str, str]:
    """The error that a command with ``-o json`` ended with."""
    answer = json.loads(result.stdout)
    assert (result.returncode, answer["ok"]) == (status, False), result.stdout
    return {str(key): str(value) for key, value in answer["error"].items()}


def held(layout: Layout, ref: str) -> list[str]:
    store = GrantStore(layout)
    return [grant.device for grant in store.read().of(store.read_register().get(ref).guid)]


def test_grant_then_revoke(machine: Layout) -> None:
    granted = renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0")
    assert (granted.returncode, granted.stderr) == (0, "")
    assert granted.stdout == "granted nvidia.com/gpu=0 to gpu-a (shared)\n"
    assert held(machine, "gpu-a") == ["nvidia.com/gpu=0"]
    again = renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0")
    assert (again.returncode, again.stdout) == (0, "gpu-a has nvidia.com/gpu=0 already (shared)\n")
    revoked = renet(machine, "gpu", "revoke", "gpu-a", "--device", "nvidia.com/gpu=0")
    assert (revoked.returncode, revoked.stdout) == (0, "revoked nvidia.com/gpu=0 from gpu-a\n")
    assert held(machine, "gpu-a") == []
    again = renet(machine, "gpu", "revoke", "gpu-a", "--device", "nvidia.com/gpu=0")
    assert (again.returncode, again.stdout) == (0, "gpu-a has no grant for nvidia.com/gpu=0\n")


def test_a_grant_of_several_is_all_or_nothing(machine: Layout) -> None:
    names = ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=9"]
    refused = renet(machine, "gpu", "grant", "gpu-a", *names)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "nvidia.com/gpu=9" in refused.stderr
    assert held(machine, "gpu-a") == []


def test_a_misspelt_device_is_answered_with_the_near_ones(machine: Layout) -> None:
    problem = error(renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=al", "-o", "json"), 5)
    assert problem["code"] == "not-found"
    assert "nvidia.com/gpu=all" in problem["hint"]


def test_a_misspelt_repository_is_answered_with_the_near_ones(machine: Layout) -> None:
    words = ["gpu", "grant", "gpu-aa", "--device", "nvidia.com/gpu=0", "-o", "json"]
    problem = error(renet(machine, *words), 5)
    assert "gpu-a" in problem["hint"]


@pytest.mark.parametrize("device", ["/dev/nvidia0", "nvidia.com/gpu", "all", "", "nvidia.com/gpu=0\n"])
def test_what_is_no_device_name(machine: Layout, device: str) -> None:
    problem = error(renet(machine, "gpu", "grant", "gpu-a", "--device", device, "-o", "json"), 2)
    assert problem["code"] == "invalid-name"


def test_an_exclusive_grant_keeps_others_out_and_is_kept_out(machine: Layout) -> None:
    data(renet(machine, "gpu", "grant", "gpu-b", "--device", "nvidia.com/gpu=all", "-o", "json"))
    exclusive = ["gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "--exclusive"]
    problem = error(renet(machine, *exclusive, "-o", "json"), 4)
    assert problem["message"] == (
        "nvidia.com/gpu=0 cannot be granted exclusively to gpu-a: gpu-b holds nvidia.com/gpu=all, "
        "which is the same GPU (/dev/nvidia0)"
    )
    assert problem["hint"].endswith("renet gpu revoke gpu-b --device nvidia.com/gpu=all")
    data(renet(machine, "gpu", "revoke", "gpu-b", "--all", "-o", "json"))
    assert renet(machine, *exclusive).stdout == "granted nvidia.com/gpu=0 to gpu-a (exclusive)\n"
    problem = error(renet(machine, "gpu", "grant", "gpu-b", "--device", "nvidia.com/gpu=0", "-o", "json"), 4)
    assert problem["message"].endswith("to gpu-b: gpu-a holds it exclusively")
    assert held(machine, "gpu-b") == []


def test_a_dry_run_checks_and_changes_nothing(machine: Layout) -> None:
    words = ["gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "--dry-run"]
    assert renet(machine, *words).stdout == "would grant nvidia.com/gpu=0 to gpu-a (shared)\n"
    assert renet(machine, *words[:-2], "nvidia.com/gpu=9", "--dry-run").returncode == 5
    assert not machine.grants.exists()


def test_json_says_what_was_done(machine: Layout) -> None:
    words = ["gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "--expires", "2099-12-31T18:00Z"]
    answer = data(renet(machine, *words, "-o", "json"))
    assert (answer["repository"], answer["granted"], answer["already"]) == ("gpu-a", ["nvidia.com/gpu=0"], [])
    grants = answer["grants"]
    assert isinstance(grants, list)
    assert grants[0]["expiresAt"] == "2099-12-31T18:00:00Z"
    assert (answer["dryRun"], answer["guid"] in json.loads(machine.grants.read_text())["grants"]) == (
        False,
        True,
    )


def test_a_damaged_file_stops_every_command(machine: Layout) -> None:
    machine.grants.write_text('{"version":7,"grants":{}}')
    problem = error(renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "-o", "json"), 12)
    assert "its version is 7" in problem["message"]
    assert "renet gpu restore" in problem["hint"]
    assert machine.grants.read_text() == '{"version":7,"grants":{}}'


def test_watching_shows_it_again_when_it_changes(machine: Layout) -> None:
    command = [
        sys.executable,
        "-m",
        "machine_setup.renet",
        "--root",
        str(machine.root),
        "gpu",
        "grants",
        "--watch",
    ]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "no grants\n"
        renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0")
        assert process.stdout.readline().startswith("DEVICE")
        assert process.stdout.readline().startswith("nvidia.com/gpu=0  gpu-a")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_is_not_root_is_told_so(machine: Layout) -> None:
    data(renet(machine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "-o", "json"))
    for path in (machine.root, *machine.root.parents):
        if path.is_relative_to(tempfile.gettempdir()) and path != Path(tempfile.gettempdir()):
            path.chmod(path.stat().st_mode | 0o555)
    # The interpreter may be where only root can read it: whatever is imported comes first.
    script = (
        "import os, sys, grants_cli.commands.grants; from machine_setup.renet import main;"
        "os.setgid(65534); os.setuid(65534);"
        f"sys.argv[1:] = ['--root', {str(machine.root)!r}, 'gpu', 'grants']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 12
    assert "repositories.json cannot be read: Permission denied" in done.stderr
    assert "hint: only root may read it: sudo renet" in done.stderr


def test_revoke_wants_to_know_what(machine: Layout) -> None:
    for words in ([], ["--all", "--device", "nvidia.com/gpu=0"]):
        assert error(renet(machine, "gpu", "revoke", "gpu-a", *words, "-o", "json"), 2)["code"] == "usage"


@pytest.mark.slow
def test_a_command_that_finds_the_lock_held_says_who_holds_it(machine: Layout) -> None:
    with holder(machine) as process:
        words = ["gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0", "-o", "json"]
        problem = error(renet(machine, *words), 15)
        assert problem["code"] == "busy"
        assert f"(process {process.pid}, by " in problem["message"]
        process.communicate(b"")

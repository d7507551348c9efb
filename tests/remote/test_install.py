"""Bringing `renet` to a machine: from nothing, again, a newer one, a broken one, and half of one."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.remote.conftest import NewMachine
from tests.remote.machine import Machine, Operator
from tests.remote.names import add, adopt, put_devices, put_renet
from tests.remote.network import network
from tests.remote.source import NEXT, next_version

DEVICE = "example.com/gpu=0"


def set_up(
    somebody: Operator, *words: str, status: int = 0, **environ: str
) -> "subprocess.CompletedProcess[str]":
    done = somebody.rdc(
        "machine", "setup", *words, "--install-nvidia-toolkit", "false", timeout=180, **environ
    )
    assert done.returncode == status, done
    return done


def release(there: Machine) -> str:
    return there.run("readlink", "/opt/rediacc/current").strip()


@pytest.fixture
def changed_source(tmp_path: Path) -> Path:
    """The source tree as version `NEXT`, for a test to change."""
    return next_version(tmp_path)


def test_from_nothing_without_a_network(
    bare: NewMachine, somebody: Operator, wheelhouse: Path, lonely: dict[str, str]
) -> None:
    there = bare(**lonely)
    add(somebody, "m1", there)
    done = set_up(somebody, "m1", "--wheelhouse", str(wheelhouse))
    for step in ("uploading", "creating /opt/rediacc/", "installing rediacc_gpu_gate", "using"):
        assert step in done.stderr
    assert "m1: renet" in done.stdout
    assert there.run("readlink", "-f", "/usr/local/bin/renet").startswith(f"/opt/rediacc/{release(there)}/")
    assert there.run("/usr/local/bin/renet", "--version").startswith("renet, version")
    assert there.exists("/etc/rediacc/gpu/inventory.json")
    assert there.run("stat", "-c", "%a %U", f"/opt/rediacc/{release(there)}").strip() == "755 root"

    again = set_up(somebody, "m1", "--wheelhouse", str(wheelhouse))
    assert "uploading" not in again.stderr


@pytest.fixture
def lonely(somebody: Operator) -> Iterator[dict[str, str]]:
    """Where a machine is that reaches the operator and nobody else."""
    with network(1) as net:
        somebody.namespace = net.operator
        [(address, namespace)] = net.machines.items()
        yield {"address": address, "namespace": namespace}


def test_a_dry_run_changes_nothing(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    add(somebody, "m1", there)
    done = set_up(somebody, "m1", "--dry-run")
    assert "would be uploaded and installed" in done.stderr
    assert not there.exists("/opt/rediacc")
    assert not there.exists("/usr/local/bin/renet")


def test_a_machine_without_index_is_told_of_the_wheelhouse(
    bare: NewMachine, somebody: Operator, lonely: dict[str, str]
) -> None:
    there = bare(**lonely)
    there.put("/etc/pip.conf", "[global]\nretries = 0\ntimeout = 1\nindex-url = http://198.18.1.1:1/\n")
    add(somebody, "m1", there)
    done = set_up(somebody, "m1", status=14)
    assert "--wheelhouse" in done.stderr
    assert there.run("sh", "-c", "ls /opt/rediacc") == ""


def test_an_upgrade_keeps_grants_and_the_old_version(
    installed: NewMachine, somebody: Operator, wheelhouse: Path, changed_source: Path
) -> None:
    there = installed()
    put_devices(there)
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    assert somebody.rdc("repo", "gpu", "grant", "gpu-a", "--device", DEVICE, "--exclusive").returncode == 0
    before = (release(there), there.run("cat", "/etc/rediacc/gpu/grants.json"))
    done = set_up(somebody, "m1", "--wheelhouse", str(wheelhouse), PYTHONPATH=str(changed_source))
    assert f"switching from {before[0]} to {NEXT}-" in done.stderr
    assert NEXT in there.run("/usr/local/bin/renet", "--version")
    assert there.run("cat", "/etc/rediacc/gpu/grants.json") == before[1]
    listed = json.loads(somebody.rdc("repo", "gpu", "list", "gpu-a", "-o", "json").stdout)["data"]
    assert [(grant["device"], grant["exclusive"]) for grant in listed] == [(DEVICE, True)]
    assert there.run("ls", "/opt/rediacc").split() == [before[0], release(there), "current"]


# By what is wrong: a file, what is added to its end, and what is said of it.
BROKEN = {
    "does not start": ("machine_setup/renet.py", "raise SystemExit('broken')\n", "does not answer"),
    "gate cannot start": ("plugin/serve.py", "import no_such_module\n", "the new gate cannot start"),
    "cannot read the register": (
        "grants_cli/register.py",
        "del Register.from_records\n",
        "does not work on this machine",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_version_is_rolled_back(
    installed: NewMachine, somebody: Operator, wheelhouse: Path, changed_source: Path, fault: str
) -> None:
    there = installed()
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    before = release(there)
    name, text, complaint = BROKEN[fault]
    path = changed_source / name
    path.write_text(f"{path.read_text()}\n{text}")
    done = set_up(somebody, "m1", "--wheelhouse", str(wheelhouse), status=14, PYTHONPATH=str(changed_source))
    assert complaint in done.stderr
    assert release(there) == before
    assert there.run("ls", "/opt/rediacc").split() == [before, "current"]
    assert "gpu-a" in somebody.rdc("repo", "list", "m1").stdout


@pytest.mark.slow
def test_an_upload_that_is_cut_leaves_the_old_version_and_can_be_repeated(
    installed: NewMachine, somebody: Operator, wheelhouse: Path, changed_source: Path, stack: ExitStack
) -> None:
    there = installed()
    add(somebody, "m1", there)
    before = release(there)
    words = [
        "machine",
        "setup",
        "m1",
        "--wheelhouse",
        str(wheelhouse),
        "--install-nvidia-toolkit",
        "false",
        "-o",
        "json",
    ]
    process = somebody.start(*words, PYTHONPATH=str(changed_source))
    stack.callback(process.kill)
    end = time.monotonic() + 60
    while not there.run("sh", "-c", "ls -d /opt/rediacc/9.* 2>/dev/null || true"):
        assert time.monotonic() < end
        time.sleep(0.02)
    there.cut_connections()
    out, _ = process.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert (process.returncode, error["code"]) == (6, "outcome-unknown")
    assert "rdc machine setup m1 again" in error["hint"]
    assert release(there) == before or release(there).startswith(NEXT)
    assert somebody.rdc("repo", "list", "m1").returncode == 0
    while subprocess.run(["true"], check=False).returncode == 0:
        done = somebody.rdc(*words[:-2], PYTHONPATH=str(changed_source))
        if done.returncode != 15:  # the cut installation may still be at work, and holds the lock
            break
    assert done.returncode == 0, done
    assert release(there).startswith(NEXT)


def test_what_somebody_else_installed_is_left_alone(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    put_renet(there, "#!/bin/sh\necho theirs\n")
    add(somebody, "m1", there)
    done = set_up(somebody, "m1", status=14)
    assert "was not put there by rdc" in done.stderr
    assert there.run("/usr/local/bin/renet") == "theirs\n"


@pytest.mark.slow
def test_two_set_ups_at_once_do_not_mix(bare: NewMachine, somebody: Operator, wheelhouse: Path) -> None:
    there = bare()
    add(somebody, "m1", there)
    words = ["machine", "setup", "m1", "--wheelhouse", str(wheelhouse), "--install-nvidia-toolkit", "false"]
    both = [somebody.start(*words), somebody.start(*words)]
    for process in both:
        process.communicate(timeout=180)
    assert sorted(process.returncode for process in both) in ([0, 0], [0, 15])
    assert there.run("/usr/local/bin/renet", "--version")


@pytest.mark.slow
def test_several_machines_at_once(bare: NewMachine, somebody: Operator, wheelhouse: Path) -> None:
    add(somebody, "m1", bare())
    add(somebody, "m2", bare(sshd="SetEnv PATH=/nowhere\n"))
    done = set_up(somebody, "m1", "m2", "--wheelhouse", str(wheelhouse), status=14)
    assert "m1: renet" in done.stdout
    assert "1 of 2 machines failed: m2" in done.stderr
    assert "m1: creating /opt/rediacc/" in done.stderr

"""One machine over a real sshd: as an ordinary user who may use sudo, and as root."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.remote.conftest import NewMachine
from tests.remote.machine import Machine, Operator
from tests.remote.names import RECORDER, add, adopt, put_devices, put_renet

DEVICE = "example.com/gpu=0"
HOSTILE = [
    "; id",
    "$(touch /pwned)",
    "`touch /pwned`",
    "a'b\"c",
    "a\\'; touch /pwned; '",
    "two\nlines",
    "--root=/",
    "",
    "ü✓ *",
]


@pytest.mark.parametrize("user", ["root", "gpuops"])
def test_the_whole_way_of_a_grant(installed: NewMachine, somebody: Operator, user: str) -> None:
    there = installed()
    put_devices(there)
    add(somebody, "m1", there, user)
    adopt(somebody, "gpu-a:test@m1")

    granted = somebody.rdc(
        "repo", "gpu", "grant", "gpu-a:test", "--device", DEVICE, "--exclusive", "--expires", "8h"
    )
    assert granted.returncode == 0, granted
    assert f"{DEVICE}: granted, gpu-a:test on m1" in granted.stdout

    again = somebody.rdc("repo", "gpu", "grant", "gpu-a:test@m1", "--device", DEVICE, "-o", "json")
    assert json.loads(again.stdout)["data"]["already"] == [DEVICE]

    listed = json.loads(somebody.rdc("repo", "gpu", "list", "gpu-a:test", "-o", "json").stdout)["data"]
    assert [(grant["device"], grant["exclusive"]) for grant in listed] == [(DEVICE, True)]
    recorded = json.loads(there.run("cat", "/etc/rediacc/gpu/grants.json"))["grants"]
    assert [grant["grantedBy"] for grants in recorded.values() for grant in grants] == [user]

    table = somebody.rdc("machine", "gpu", "list", "m1")
    assert table.returncode == 0, table
    assert [line for line in table.stdout.splitlines() if DEVICE in line and "gpu-a:test (exclusive" in line]

    shared = somebody.rdc("repo", "gpu", "who", "gpu-a:test")
    assert [line.split()[:3] for line in shared.stdout.splitlines() if DEVICE in line] == [
        [DEVICE, "gpu-a:test", "exclusive"]
    ], shared

    revoked = somebody.rdc("repo", "gpu", "revoke", "gpu-a:test", "--all")
    assert (revoked.returncode, f"{DEVICE}: revoked" in revoked.stdout) == (0, True), revoked
    assert somebody.rdc("repo", "gpu", "list", "gpu-a:test").stdout == "gpu-a:test@m1 has no grants\n"


def test_the_doctor_finds_what_is_wrong_there(installed: NewMachine, somebody: Operator) -> None:
    there = installed()
    there.put("/etc/rediacc/repositories.json", "damaged", 0o644)
    add(somebody, "m1", there)
    done = somebody.rdc("machine", "doctor", "m1")
    assert done.returncode == 1, done
    assert [
        line
        for line in done.stdout.splitlines()
        if line.startswith("failure m1: ") and "repositories.json" in line
    ]
    document = json.loads(somebody.rdc("machine", "doctor", "m1", "-o", "json").stdout)
    assert (document["ok"], document["data"]["healthy"]) == (True, False)


def test_json_is_the_inventory_byte_for_byte(installed: NewMachine, somebody: Operator) -> None:
    there = installed()
    add(somebody, "m1", there)
    listed = somebody.rdc("machine", "gpu", "list", "m1", "-o", "json")
    assert listed.stdout == there.run("cat", "/etc/rediacc/gpu/inventory.json")


@pytest.mark.parametrize("user", ["root", "gpuops"])
def test_hostile_names_arrive_unchanged(bare: NewMachine, somebody: Operator, user: str) -> None:
    there = bare()
    put_renet(there, RECORDER)
    add(somebody, "m1", there, user)
    words = [f"--device={name}" for name in HOSTILE]
    done = somebody.rdc("repo", "gpu", "grant", "gpu-a", *words, "-o", "json")
    assert done.returncode == 0, done
    argv = json.loads(done.stdout)["data"]["argv"]
    assert argv == ["gpu", "grant", *words, "-o", "json", "--", "gpu-a"]
    assert not there.exists("/pwned")


def test_a_hostile_name_is_refused_by_renet_and_by_nothing_before(
    installed: NewMachine, somebody: Operator
) -> None:
    there = installed()
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    done = somebody.rdc("repo", "gpu", "grant", "gpu-a", "--device=$(touch /pwned)=0", "-o", "json")
    assert done.returncode == 2, done
    assert "$(touch /pwned)" in json.loads(done.stdout)["error"]["message"]
    assert not there.exists("/pwned")


def test_what_is_explained_travels_whole(bare: NewMachine, somebody: Operator, tmp_path: Path) -> None:
    there = bare()
    put_renet(there, RECORDER)
    add(somebody, "m1", there)
    body = json.dumps({"Image": "ü" * 100_000})
    (tmp_path / "body.json").write_text(body)
    done = somebody.rdc("repo", "gpu", "explain", "gpu-a", str(tmp_path / "body.json"), "-o", "json")
    assert json.loads(done.stdout)["data"]["stdin"] == body
    assert json.loads(done.stdout)["data"]["argv"][-2:] == ["gpu-a", "-"]


def test_a_second_command_uses_the_first_ones_connection(installed: NewMachine, somebody: Operator) -> None:
    there = installed()
    add(somebody, "m1", there)
    for _ in range(3):
        assert somebody.rdc("repo", "list", "m1").returncode == 0
    assert there.logins == 1


def test_a_jump_host_of_the_users_configuration_is_used(installed: NewMachine, somebody: Operator) -> None:
    behind, jump = installed(), installed()
    somebody.know("jump.test", jump)
    add(somebody, "m1", behind, options=("ProxyJump jump.test",))
    assert somebody.rdc("repo", "list", "m1").returncode == 0
    assert (jump.logins, behind.logins) == (1, 1)


def test_the_root_of_the_login_is_passed_through_sudo(installed: NewMachine, somebody: Operator) -> None:
    there = installed(sshd="SetEnv REDIACC_ROOT=/var/lib/elsewhere\n")
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    assert there.exists("/var/lib/elsewhere/etc/rediacc/repositories.json")
    assert not there.exists("/etc/rediacc/repositories.json")


def failure(somebody: Operator, *words: str) -> tuple[int, str, str, str]:
    """The status, code, message and hint with which `rdc` fails."""
    done = somebody.rdc(*words, "-o", "json", timeout=40)
    error = json.loads(done.stdout)["error"]
    assert error["hint"], error
    return done.returncode, error["code"], error["message"], error["hint"]


def test_missing_renet(bare: NewMachine, somebody: Operator) -> None:
    add(somebody, "m1", bare())
    assert failure(somebody, "repo", "list", "m1") == (
        14,
        "missing-renet",
        "machine m1: renet is not installed there",
        "rdc machine setup m1",
    )


def test_old_renet(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    put_renet(there, RECORDER, "/opt/rediacc/0.0.9-12345678/bin/renet")
    there.run("ln", "-s", "0.0.9-12345678", "/opt/rediacc/current")
    there.run("ln", "-s", "/opt/rediacc/current/bin/renet", "/usr/local/bin/renet")
    add(somebody, "m1", there)
    status, code, message, hint = failure(somebody, "repo", "list", "m1")
    assert (status, code, hint) == (14, "old-renet", "rdc machine setup m1")
    assert "0.0.9" in message


def test_missing_sudo(bare: NewMachine, somebody: Operator) -> None:
    there = bare(sshd="SetEnv PATH=/usr/local/bin\n")
    put_renet(there, RECORDER)
    add(somebody, "m1", there)
    assert failure(somebody, "repo", "list", "m1")[:2] == (14, "missing-sudo")
    add(somebody, "m2", there, "root")
    assert somebody.rdc("repo", "gpu", "grant", "x@m2", "--device", DEVICE).returncode == 0


def test_sudo_that_wants_a_password(installed: NewMachine, somebody: Operator) -> None:
    there = installed()
    there.put("/etc/sudoers.d/zz-test", "gpuops ALL=(ALL) ALL\n")
    add(somebody, "m1", there)
    begun = time.monotonic()
    status, code, message, _ = failure(somebody, "repo", "list", "m1")
    assert (status, code) == (14, "sudo-refused")
    assert "password" in message
    assert time.monotonic() - begun < 10


def test_missing_python(bare: NewMachine, somebody: Operator) -> None:
    add(somebody, "m1", bare(sshd="SetEnv PATH=/nowhere\n"))
    status, _, message, _ = failure(somebody, "repo", "list", "m1")
    assert (status, "python3" in message) == (14, True)


def test_a_renet_that_answers_nonsense(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    put_renet(there, "#!/bin/sh\necho nonsense\necho the disk is full >&2\nexit 3\n")
    add(somebody, "m1", there)
    status, code, message, _ = failure(somebody, "repo", "list", "m1")
    assert (status, code) == (14, "command-failed")
    assert "the disk is full" in message


def _forget(somebody: Operator) -> None:
    (somebody.home / "known_hosts").unlink()


def test_an_unknown_host_key(bare: NewMachine, somebody: Operator) -> None:
    add(somebody, "m1", bare())
    _forget(somebody)
    assert failure(somebody, "repo", "list", "m1")[:2] == (6, "host-key-unknown")


def test_a_changed_host_key(bare: NewMachine, somebody: Operator) -> None:
    there, other = bare(), bare()
    add(somebody, "m1", there)
    _forget(somebody)
    key = (other.directory / "host_key.pub").read_text().split()
    (somebody.home / "known_hosts").write_text(f"[127.0.0.1]:{there.port} {key[0]} {key[1]}\n")
    status, code, message, hint = failure(somebody, "repo", "list", "m1")
    assert (status, code) == (6, "host-key-changed")
    assert f"line 1 of {somebody.home}/known_hosts" in message
    assert "ssh-keygen -R" in hint


def test_a_refused_login(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    there.run("sh", "-c", "rm /home/gpuops/.ssh/authorized_keys")
    add(somebody, "m1", there)
    assert failure(somebody, "repo", "list", "m1")[:2] == (6, "login-refused")


def test_nothing_listens_or_nobody_has_the_name(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    add(somebody, "m1", there)
    there.end()
    status, code, message, _ = failure(somebody, "repo", "list", "m1")
    assert (status, code, "refused" in message) == (6, "unreachable", True)
    somebody.rdc("machine", "add", "m2", "--host", "nowhere.invalid")
    status, code, message, _ = failure(somebody, "repo", "list", "m2")
    assert (status, code, "resolve" in message) == (6, "unreachable", True)


def _hold_lock(there: Machine) -> "subprocess.Popen[bytes]":
    """Somebody on the machine who holds the lock of its grants, until stdin is closed."""
    script = "mkdir -p /etc/rediacc/gpu; exec flock /etc/rediacc/gpu/grants.lock sh -c 'echo held; cat'"
    holder = subprocess.Popen(
        [*there.enter, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    return holder


def _wait_for(condition: object) -> None:
    end = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_change_whose_connection_is_cut_may_have_been_made(
    installed: NewMachine, somebody: Operator
) -> None:
    there = installed()
    put_devices(there)
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    holder = _hold_lock(there)
    granting = somebody.start("repo", "gpu", "grant", "gpu-a@m1", "--device", DEVICE, "-o", "json")
    _wait_for(lambda: "grant" in there.run("ps", "-eo", "args").replace("grants", ""))
    time.sleep(0.5)
    there.cut_connections()
    out, _ = granting.communicate(timeout=30)
    holder.communicate(b"", timeout=10)
    error = json.loads(out)["error"]
    assert (granting.returncode, error["code"]) == (6, "outcome-unknown")
    assert "not known" in error["message"]
    assert error["hint"] == "find out: rdc repo gpu list gpu-a@m1"
    # It was made: renet went on when the lock was free, and the way to find out says so.
    _wait_for(lambda: DEVICE in somebody.rdc("repo", "gpu", "list", "gpu-a@m1").stdout)


def test_a_change_that_is_interrupted_may_have_been_made(installed: NewMachine, somebody: Operator) -> None:
    there = installed()
    put_devices(there)
    add(somebody, "m1", there)
    adopt(somebody, "gpu-a@m1")
    holder = _hold_lock(there)
    granting = somebody.start("repo", "gpu", "grant", "gpu-a@m1", "--device", DEVICE)
    _wait_for(lambda: "renet gpu grant" in there.run("ps", "-eo", "args"))
    granting.send_signal(signal.SIGINT)
    _, messages = granting.communicate(timeout=30)
    holder.communicate(b"", timeout=10)
    assert granting.returncode == 6
    assert "interrupted. Whether the change was made is not known" in messages
    assert "rdc repo gpu list gpu-a@m1" in messages


def test_a_look_whose_connection_is_cut_is_only_lost(bare: NewMachine, somebody: Operator) -> None:
    there = bare()
    put_renet(there, "#!/bin/sh\ntouch /var/lib/started\nsleep 60\n")
    add(somebody, "m1", there)
    looking = somebody.start("repo", "list", "m1", "-o", "json")
    _wait_for(lambda: there.exists("/var/lib/started"))
    there.cut_connections()
    out, _ = looking.communicate(timeout=30)
    assert (looking.returncode, json.loads(out)["error"]["code"]) == (6, "connection-lost")

"""nvidia-persistenced's socket: a repository's daemon that does not see it cannot start GPU containers."""

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from machine_setup.setup.persistence import SOCKET, sees
from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.stand_ins import SPEC
from tests.unit.machine_setup.trees import nvidia_machine

MakeBox = Callable[..., Box]
GUID = "5b0f0f0e-7c5e-4a7c-9d51-0a1b2c3d4e5f"
# A mount namespace of its own, as a daemon with a hardened unit has.
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="making a mount namespace needs root")


@contextmanager
def persistenced(box: Box) -> Iterator[None]:
    """The socket is there."""
    path = box.tree.root / SOCKET
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a test may be longer than an address may be
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)
        yield


@contextmanager
def daemon(box: Box, *, blind: bool) -> Iterator[int]:
    """A process called dockerd that gpu-a's pid file names; `blind`: with a /run of its own."""
    run = box.tree.root / "run"
    hide = f"mount -t tmpfs none {shlex.quote(str(run))}; " if blind else ""
    script = f"{hide}echo ready; exec -a dockerd sleep 300"
    command = ["unshare", "--mount", "bash", "-c", script] if blind else ["bash", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pid_file = box.tree.write("srv/docker.pid", f"{process.pid}\n")
        daemon_json = box.tree.write("etc/gpu-a.json", json.dumps({"pidfile": str(pid_file)}))
        adopt(box, daemon_json)
        _wait_for_exec(process.pid)
        yield process.pid
        process.kill()


def _wait_for_exec(pid: int) -> None:
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"dockerd"):
        os.sched_yield()


def adopt(box: Box, daemon_json: Path) -> None:
    """Register gpu-a, whose daemon is configured by `daemon_json`."""
    place = box.tree.root / "srv"
    record = {
        "ref": "gpu-a",
        "socket": str(place / "docker.sock"),
        "dataRoot": str(place / "docker"),
        "daemonJson": str(daemon_json),
        "managed": False,
        "createdAt": "2026-01-31T10:00:00Z",
    }
    box.tree.write(
        "etc/rediacc/repositories.json", json.dumps({"version": 1, "repositories": {GUID: record}})
    ).chmod(0o600)


def equipped(box: MakeBox) -> Box:
    return box(nvidia_machine, "nvidia-smi", "nvidia-ctk", "systemctl")


def mentions(box: Box) -> list[str]:
    """What set-up says of the socket."""
    return [step for step in box.answer()["next"] if "nvidia-persistenced" in step]


@as_root
def test_a_daemon_that_does_not_see_the_socket_is_named(box: MakeBox) -> None:
    machine = equipped(box)
    with persistenced(machine), daemon(machine, blind=True) as pid:
        assert not sees(pid, machine.tree.root / SOCKET)
        (message,) = mentions(machine)
    assert "The daemon of gpu-a does not see" in message


def test_a_daemon_that_sees_it_is_not(box: MakeBox) -> None:
    machine = equipped(box)
    with persistenced(machine), daemon(machine, blind=False) as pid:
        assert sees(pid, machine.tree.root / SOCKET)
        assert mentions(machine) == []


def test_a_repository_without_a_running_daemon_is_not(box: MakeBox) -> None:
    machine = equipped(box)
    adopt(machine, machine.tree.root / "etc/gpu-a.json")
    with persistenced(machine):
        assert mentions(machine) == []


def test_a_spec_that_mounts_a_socket_that_is_gone_is_reported(box: MakeBox) -> None:
    machine = equipped(box)
    mount = f"  - containerPath: /{SOCKET}\n    hostPath: /{SOCKET}\n"
    machine.stand_ins.write("spec.yaml", SPEC.replace("  mounts:\n", f"  mounts:\n{mount}"))
    (message,) = mentions(machine)
    assert "systemctl start nvidia-persistenced" in message

"""The lab machine from nothing to a container with a device, by `rdc` alone; then an upgrade."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.lab.build import PROJECT
from tests.lab.image import Image
from tests.lab.machine import Machine
from tests.lab.package import UNWANTED
from tests.pages import script
from tests.remote.machine import Operator, operator
from tests.remote.source import NEXT, next_version

pytestmark = pytest.mark.lab

TIMEOUT = 900.0


class Desk:
    """The operator's desk: `rdc` here, and the Docker clients of tenants there."""

    def __init__(self, machine: Machine, somebody: Operator, wheelhouse: Path) -> None:
        self.machine = machine
        self._somebody = somebody
        self.wheelhouse = wheelhouse
        config = machine.ssh_config.read_text().replace(
            "Host lab lab-admin", "Host lab lab-admin lab.example.org"
        )
        (somebody.home / "lab_config").write_text(config)
        self._ssh = f"ssh -F {somebody.home}/lab_config"

    def rdc(self, *words: str, status: int = 0, **environ: str) -> str:
        """What `rdc` prints; it must end with `status`."""
        done = self._somebody.rdc(*words, timeout=TIMEOUT, **{"REDIACC_SSH": self._ssh} | environ)
        assert done.returncode == status, done
        return done.stdout + done.stderr

    def type_page(self, page: str) -> str:
        """What the operator's commands on `page` print, typed into one shell."""
        home = self._somebody.home
        (home / "rdc").write_text(f'#!/bin/sh\nexec {sys.executable} -m grants_cli.rdc "$@"\n')
        (home / "rdc").chmod(0o755)
        environ = self._somebody.environ | {"REDIACC_SSH": self._ssh, "PATH": f"{home}:{os.environ['PATH']}"}
        typed = subprocess.run(
            ["bash", "-c", script(page, "operator")],
            cwd=self.wheelhouse.parent,  # a clone of this repository
            env=environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert typed.returncode == 0, typed
        return typed.stdout + typed.stderr

    def data(self, *words: str) -> Any:
        """The data that `rdc` answers with."""
        document = json.loads(self.rdc(*words, "-o", "json"))
        return document["data"]

    def docker(self, slug: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A Docker client of the repository, on the machine."""
        host = f"unix:///run/rediacc/docker-{slug}.sock"
        return self.machine.run(f"docker -H {host} {command}", check=check, timeout=300)

    def nodes(self, slug: str, device: str) -> str:
        """What a container sees of DRI, started with `device`; the denial where there is one."""
        run = f"run --rm --network none --device {device} busybox busybox ls /dev/dri"
        done = self.docker(slug, run, check=False)
        return done.stdout if done.returncode == 0 else done.stderr


def wheels_for(machine: Machine, directory: Path) -> Path:
    """The wheels that the machine's own Python needs, fetched here."""
    version = machine.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=chr(46))'").stdout.strip()
    platforms = [f"--platform={name}_x86_64" for name in ("manylinux_2_28", "manylinux2014")]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
    chosen = ["--only-binary=:all:", f"--python-version={version}", *platforms]
    subprocess.run([*pip, *chosen, "--dest", directory, PROJECT], check=True, stderr=subprocess.PIPE)
    return directory


@pytest.fixture(scope="module")
def desk(lab_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A machine that has only SSH, sudo, Python and Docker, known as ``lab``."""
    with ExitStack() as stack:
        machine = stack.enter_context(Machine(lab_image))
        somebody = stack.enter_context(operator(tmp_path_factory.mktemp("operator")))
        clone = tmp_path_factory.mktemp("desk") / "clone"
        shutil.copytree(PROJECT, clone, ignore=UNWANTED)
        yield Desk(machine, somebody, wheels_for(machine, clone / "wheels"))


def test_from_nothing_to_a_container_with_a_device(desk: Desk) -> None:
    told = desk.type_page("docs/rdc.md")
    for step in (
        "added lab",
        "creating /opt/rediacc/",
        "[1/",
        "lab: renet",
        "gpu-a@lab: created",
        ": revoked, gpu-a",
    ):
        assert step in told

    device = _device(desk)
    shown = desk.rdc("machine", "gpu", "list", "lab")
    assert "native, inventory" in shown
    assert device in shown

    _import_busybox(desk)
    assert "has no grant" in desk.nodes("gpu-a", device)

    desk.rdc("repo", "gpu", "grant", "gpu-a", "--device", device)
    assert device.partition("=")[2] in desk.nodes("gpu-a", device)
    assert [one["device"] for one in desk.data("repo", "gpu", "list", "gpu-a")] == [device]
    assert "gpu-a" in next(line for line in desk.rdc("gpu", "list").splitlines() if device in line)

    desk.rdc("repo", "fork", "gpu-a", "gpu-a:copy")
    assert desk.data("repo", "gpu", "list", "gpu-a:copy") == []
    assert "has no grant" in desk.nodes("gpu-a.copy", device)

    desk.rdc("repo", "gpu", "revoke", "gpu-a", "--device", device)
    assert "has no grant" in desk.nodes("gpu-a", device)
    desk.rdc("repo", "delete", "gpu-a:copy", "--yes")
    assert [one["ref"] for one in desk.data("repo", "list", "lab")] == ["gpu-a"]


def test_the_readmes_commands_work(desk: Desk) -> None:
    # Its translations type the same: see tests/unit/test_pages.py.
    desk.rdc("repo", "delete", "gpu-a", "--yes")
    desk.rdc("machine", "remove", "lab")
    assert ": revoked, gpu-a" in desk.type_page("README.md")


def _import_busybox(desk: Desk) -> None:
    desk.machine.run(
        "mkdir -p /root/image/bin && cp /bin/busybox /root/image/bin/ && tar -C /root/image -c . |"
        " docker -H unix:///run/rediacc/docker-gpu-a.sock import - busybox"
    )


def _device(desk: Desk) -> str:
    inventory = json.loads(desk.rdc("machine", "gpu", "list", "lab", "-o", "json"))
    return str(inventory["devices"][0]["name"])


def test_an_upgrade_keeps_grants_and_what_runs(desk: Desk, tmp_path: Path) -> None:
    device = _device(desk)
    _import_busybox(desk)
    desk.rdc("repo", "gpu", "grant", "gpu-a", "--device", device)
    run = f"run --detach --name keeper --network none --device {device} busybox busybox sleep 3600"
    desk.docker("gpu-a", run)
    started = desk.docker("gpu-a", "inspect --format '{{.State.StartedAt}}' keeper").stdout
    gate = desk.machine.run("systemctl show --value -p MainPID rediacc-gate.service").stdout

    desk.rdc(
        "machine",
        "setup",
        "lab",
        "--wheelhouse",
        str(desk.wheelhouse),
        PYTHONPATH=str(next_version(tmp_path)),
    )

    assert NEXT in desk.machine.run("renet --version").stdout
    assert desk.machine.run("systemctl show --value -p MainPID rediacc-gate.service").stdout != gate
    process = desk.machine.run(
        "tr '\\0' ' ' </proc/$(systemctl show --value -p MainPID rediacc-gate.service)/cmdline"
    )
    assert "/opt/rediacc/current/" in process.stdout or f"/opt/rediacc/{NEXT}-" in process.stdout
    assert [one["device"] for one in desk.data("repo", "gpu", "list", "gpu-a")] == [device]
    assert desk.docker("gpu-a", "inspect --format '{{.State.StartedAt}}' keeper").stdout == started
    assert device.partition("=")[2] in desk.nodes("gpu-a", device)
    desk.rdc("repo", "gpu", "revoke", "gpu-a", "--all", "--stop")
    assert desk.docker("gpu-a", "ps --quiet").stdout == ""

"""The Debian package: built and checked by Debian's tools, installed, upgraded and removed in the lab."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.image import Image
from tests.lab.machine import Machine
from tests.lab.package import Builder, builder

pytestmark = pytest.mark.lab

SLOW = 600.0
DOCKER = "docker -H unix:///run/rediacc/docker-gpu-a.sock"
UNITS = (
    "rediacc-gate.service", "rediacc-gate@.socket", "rediacc-docker@.service", "rediacc-docker@.socket",
    "rediacc-views.service", "rediacc-views.path", "rediacc-views.timer", "rediacc-cdi-refresh.service",
    "rediacc.slice",
)  # fmt: skip


@pytest.fixture(scope="module")
def debian() -> Builder:
    return builder()


@pytest.fixture(scope="module")
def package(debian: Builder) -> Path:
    return debian.build()


@pytest.fixture(scope="module")
def machine(lab_image: Image, debian: Builder, package: Path) -> Iterator[Machine]:
    """The lab machine with the package and what it depends on in /root/debs, not installed."""
    with Machine(lab_image) as machine:
        debs = debian.dependencies(machine.run("cat /var/lib/dpkg/status").stdout)
        machine.copy_in(debs, "/root/debs")
        machine.copy_in(package, "/root/package.deb")
        yield machine


def test_lintian_finds_nothing(debian: Builder, package: Path) -> None:
    assert package.exists()
    assert debian.lint() == ""


def test_it_installs_everything_and_starts_nothing(machine: Machine) -> None:
    machine.run("dpkg -i /root/debs/*.deb /root/package.deb", timeout=SLOW)
    assert machine.run("command -v renet rdc").stdout.split() == ["/usr/bin/renet", "/usr/bin/rdc"]
    machine.run("renet --version; rdc --version")
    for unit in UNITS:
        machine.run(f"test -f /usr/lib/systemd/system/{unit}")
    machine.run(
        "test -f /usr/lib/udev/rules.d/70-rediacc-cdi.rules -a -f /usr/share/man/man1/renet-gpu-grant.1.gz"
        " -a -s /usr/share/bash-completion/completions/rdc -a -s /usr/share/zsh/vendor-completions/_renet"
        " -a -s /usr/share/fish/vendor_completions.d/rdc.fish"
        " -a -f /usr/share/rediacc-gpu-gate/grants_cli/schemas/grants.json"
    )
    assert machine.run("systemctl list-units --plain --no-legend 'rediacc*'").stdout == ""
    assert machine.run("find /etc/systemd -name 'rediacc*'").stdout == ""


def test_set_up_and_a_repository_use_the_packages_units(machine: Machine) -> None:
    machine.run("renet setup --install-nvidia-toolkit false && renet repo create gpu-a", timeout=SLOW)
    here = machine.run("find /etc/systemd/system /etc/udev -name '*rediacc*' -type f").stdout.splitlines()
    assert [path for path in here if not path.endswith(".d/repository.conf")] == []
    device = machine.run(
        "renet cdi list -o json | grep -o 'rediacc.io/dri=renderD[0-9]*' | head -n 1"
    ).stdout.strip()
    machine.run(
        "mkdir -p /root/image/bin && cp /bin/busybox /root/image/bin/ && "
        f"tar -C /root/image -c . | {DOCKER} import - busybox && "
        f"renet gpu grant gpu-a --device {device} && "
        f"{DOCKER} run -d --name keeper --network none --device {device} busybox busybox sleep 36000",
        timeout=SLOW,
    )
    assert "keeper" in _running(machine)


def test_an_upgrade_stops_and_starts_nothing(machine: Machine) -> None:
    before = _state(machine)
    machine.run("dpkg -i /root/package.deb", timeout=SLOW)
    assert _state(machine) == before
    assert "keeper" in _running(machine)


def test_removal_keeps_what_is_the_operators_and_purging_asks_for_less(machine: Machine) -> None:
    machine.run("dpkg -r rediacc-gpu-gate", timeout=SLOW)
    machine.run("test ! -e /usr/bin/renet -a -s /etc/rediacc/gpu/grants.json")
    assert "stays" in machine.run("dpkg -P rediacc-gpu-gate 2>&1", timeout=SLOW).stdout
    machine.run("test -s /etc/rediacc/gpu/grants.json")

    machine.run("dpkg -i /root/package.deb && renet repo delete gpu-a", timeout=SLOW)
    machine.run("dpkg -P rediacc-gpu-gate", timeout=SLOW)
    left = machine.run(
        "ls -d /etc/rediacc /var/lib/rediacc /var/log/rediacc /etc/cdi/rediacc* 2>&1", check=False
    )
    assert "/etc/rediacc\n" not in left.stdout.replace("ls: cannot access '/etc/rediacc'", "")
    assert machine.run("find /etc -name '*rediacc*' ! -path '*/rc?.d/*'").stdout == ""


def _running(machine: Machine) -> str:
    return machine.run(f"{DOCKER} ps --format '{{{{.Names}}}}'").stdout


def _state(machine: Machine) -> str:
    """When each of the units began, and the container's process. (The timer starts rediacc-views.service.)"""
    units = "'rediacc-gate*' 'rediacc-docker*' 'rediacc*.slice' rediacc-views.timer rediacc-views.path"
    return machine.run(
        f"systemctl show -p Id,MainPID,ActiveEnterTimestampMonotonic {units};"
        f" {DOCKER} inspect --format '{{{{.State.Pid}}}}' keeper"
    ).stdout

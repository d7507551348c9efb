"""Bad states of a whole machine: made, found by the doctor, mended by the very command that it prints."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.image import Image
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

PERSISTENCED = "/run/nvidia-persistenced/socket"
#: A stand-in for NVIDIA's service: it makes the socket that NVIDIA's specs mount into containers.
PERSISTENCED_UNIT = f"""\
[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=nvidia-persistenced
ExecStart=touch {PERSISTENCED}
"""
SPEC = json.dumps(
    {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/kmsg"}]}}],
        "containerEdits": {"mounts": [{"hostPath": PERSISTENCED, "containerPath": PERSISTENCED}]},
    }
)
#: As often as it takes: the unit may start 3 times a minute.
RESTART = "systemctl daemon-reload; systemctl reset-failed docker.service; systemctl restart docker.service"
#: What a machine's owner may have written, with a word that systemd and the daemon read differently.
OPEN_FLAGS = """\
[Service]
ExecStart=
ExecStart=/usr/sbin/dockerd -H fd:// --host=tcp://127.0.0.1:2375 --tls=false \\
  --default-runtime other --add-runtime=other=/usr/sbin/runc --label "a=50%% of $$1"
"""


@pytest.fixture(scope="module")
def machine(lab_image: Image) -> Iterator[Machine]:
    """The lab machine, set up."""
    with Machine(lab_image) as machine:
        machine.install_project()
        machine.run("renet setup", timeout=300)
        machine.run("cat >/etc/systemd/system/nvidia-persistenced.service", input=PERSISTENCED_UNIT)
        machine.run("systemctl daemon-reload")
        yield machine


def failures(machine: Machine) -> dict[str, str]:
    """What is unsafe or broken, by the check's id: the command that fixes it."""
    done = machine.run("renet doctor -o json", check=False)
    found = json.loads(done.stdout)["data"]["findings"]
    return {each["id"]: each["fix"] for each in found if each["status"] == "failure"}


def mend(machine: Machine, *identities: str) -> None:
    """Type the fix of these failures, which must be the only ones, and see that nothing is left."""
    found = failures(machine)
    assert set(found) == set(identities)
    for fix in dict.fromkeys(found.values()):
        machine.run(fix, timeout=300)
    assert failures(machine) == {}


def test_flags_of_the_units_command_line(machine: Machine) -> None:
    machine.run("renet repo adopt host --socket /run/docker.sock --fix")
    machine.run(RESTART, timeout=300)
    assert failures(machine) == {}
    machine.run("mkdir -p /etc/systemd/system/docker.service.d")
    machine.run("cat >/etc/systemd/system/docker.service.d/local.conf", input=OPEN_FLAGS)
    machine.run(RESTART, timeout=300)
    assert machine.run("docker -H tcp://127.0.0.1:2375 version").returncode == 0
    mend(machine, "tcp-socket", "tcp-listener", "default-runtime", "other-runtimes", "runtime-live")
    assert machine.run("docker -H tcp://127.0.0.1:2375 version", check=False).returncode != 0
    told = machine.run("docker info --format '{{.Labels}} {{.DefaultRuntime}}'").stdout
    assert told == "[a=50% of $1] runc\n"


def test_a_plugin_that_the_unit_names_and_the_file_does_not(machine: Machine) -> None:
    machine.run("""sed -i '/"authorization-plugins"/,/]/d' /etc/docker/daemon.json""")
    unit = "/etc/systemd/system/docker.service.d/zz-rediacc.conf"
    machine.run(f"sed -i 's/^ExecStart=.*fd:.*/& --authorization-plugin=rediacc-host/' {unit}")
    machine.run(RESTART, timeout=300)
    mend(machine, "plugin-configured")
    assert "rediacc-host" in machine.run("docker info --format '{{.Plugins.Authorization}}'").stdout


def test_a_spec_whose_node_is_gone(machine: Machine) -> None:
    machine.run("sed -i s/renderD128/renderD140/ /etc/cdi/rediacc.io-dri.yaml")
    mend(machine, "nodes-current")


def test_a_mount_that_is_not_there(machine: Machine) -> None:
    machine.run("cat >/etc/cdi/nvidia.yaml", input=SPEC)
    mend(machine, "mounts-there")


def test_a_daemon_that_lost_its_second_lock_and_one_that_misses_a_mount(machine: Machine) -> None:
    machine.run("renet repo create gpu-a", timeout=300)
    for gone, identity in (
        ("umount /etc/cdi", "view-in-place"),
        ("mount -t tmpfs none /run/nvidia-persistenced", "mounts-visible"),
    ):
        pid = machine.run("systemctl show -P MainPID rediacc-docker@gpu-a.service").stdout.strip()
        machine.run(f"nsenter -t {pid} -m {gone}")
        mend(machine, identity)

"""Repositories on a whole machine: systemd starts them, holds their sockets, and brings them back at boot."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.engine.image import image_archive
from tests.lab.image import Image
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

IMAGE_FILE = "/root/image.tar"
#: A GPU whose node no container may open unless it is injected.
SPEC = json.dumps(
    {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {
                "name": name,
                "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{name}", "hostPath": node}]},
            }
            for name, node in (("0", "/dev/kmsg"), ("1", "/dev/loop-control"))
        ],
        "containerEdits": {
            "mounts": [
                {
                    "hostPath": "/run/nvidia-persistenced/socket",
                    "containerPath": "/run/nvidia-persistenced/socket",
                    "options": ["rbind", "nosuid"],
                }
            ]
        },
    }
)


@pytest.fixture(scope="module")
def machine(lab_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The lab machine, set up, with a persistence daemon's socket and one repository: gpu-a."""
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    archive.write_bytes(image_archive())
    with Machine(lab_image) as machine:
        machine.install_project()
        machine.copy_in(archive, IMAGE_FILE)
        machine.run("renet setup", timeout=300)
        persistence(machine)
        machine.run("cat >/etc/cdi/nvidia.yaml", input=SPEC)
        machine.run("groupadd tenants; useradd -G tenants tenant; useradd stranger")
        machine.run("renet repo create gpu-a --group tenants", timeout=300)
        docker(machine, "import", IMAGE_FILE, "busybox")
        yield machine


def persistence(machine: Machine) -> None:
    """Make the directory of nvidia-persistenced anew, as a restart of that service does."""
    place = "/run/nvidia-persistenced"
    machine.run(f"rm -rf {place}; mkdir {place}; touch {place}/socket")


def docker(machine: Machine, *words: str, name: str = "gpu-a", check: bool = True) -> str:
    """What the repository's Docker answers, messages included."""
    command = f"docker -H unix:///run/rediacc/docker-{name}.sock {' '.join(words)} 2>&1"
    return machine.run(command, check=check, timeout=300).stdout


def opens(machine: Machine, device: str = "0", name: str = "gpu-a") -> str:
    """What a new container says that opens the device."""
    return docker(
        machine, "run", "--rm", "--device", f"nvidia.com/gpu={device}", "busybox", "open-device",
        f"/dev/nvidia{device}", name=name, check=False,
    )  # fmt: skip


def eventually(condition: Callable[[], bool], seconds: float = 90) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(1)
    return True


def test_a_created_repository_serves_its_tenant_at_once(machine: Machine) -> None:
    assert "has no grant for nvidia.com/gpu=0" in opens(machine)
    machine.run("renet gpu grant gpu-a --device nvidia.com/gpu=0")
    assert "opened /dev/nvidia0" in opens(machine)
    assert "has no grant for nvidia.com/gpu=1" in opens(machine, "1")
    sock = "docker -H unix:///run/rediacc/docker-gpu-a.sock ps"
    assert machine.run(f"su tenant -c '{sock}'").returncode == 0
    assert machine.run(f"su stranger -c '{sock}'", check=False).returncode != 0


def test_doctor_finds_nothing_unsafe(machine: Machine) -> None:
    done = machine.run("renet doctor -o json", check=False)
    failures = [each for each in json.loads(done.stdout)["data"]["findings"] if each["status"] == "failure"]
    assert failures == []


def test_the_network_works_out_of_the_box(machine: Machine) -> None:
    docker(machine, "run -d --name=web -p 8080:80 --stop-timeout=1 busybox httpd -f -p 80 -h /etc")
    fetch = "busybox wget -q -O - http://127.0.0.1:8080/passwd"
    assert eventually(lambda: "root" in machine.run(fetch, check=False).stdout)
    assert "rediacc-" in machine.run("nft list tables").stdout
    docker(machine, "rm", "-f", "web")


def test_the_persistence_daemon_may_restart(machine: Machine) -> None:
    persistence(machine)
    assert "opened /dev/nvidia0" in opens(machine)


def test_the_daemon_sees_neither_other_repositories_nor_the_gates_files(machine: Machine) -> None:
    pid = machine.run("systemctl show -P MainPID rediacc-docker@gpu-a.service").stdout.strip()
    seen = machine.run(
        f"nsenter -t {pid} -m sh -c 'ls /etc/rediacc /run/rediacc /var/lib/rediacc/repos /run/docker; "
        "cat /var/log/rediacc/* || true'"
    )
    assert "grants.json" not in seen.stdout
    assert "docker-gpu-a.sock" not in seen.stdout
    assert '"device"' not in seen.stdout
    bounding = machine.run(f"grep CapBnd /proc/{pid}/status").stdout
    modules_ports_boot = 1 << 16 | 1 << 17 | 1 << 22
    assert int(bounding.split()[1], 16) & modules_ports_boot == 0


def test_a_restart_of_the_gate_loses_no_request(machine: Machine) -> None:
    ask = "docker -H unix:///run/rediacc/docker-gpu-a.sock version --format=answered"
    machine.run(
        "systemd-run --unit=knocks --collect sh -c "
        f"'for n in $(seq 15); do {ask} || echo lost; done >/root/knocks 2>&1'"
    )
    for _ in range(2):
        machine.run("systemctl restart rediacc-gate.service")
    assert eventually(lambda: machine.run("systemctl is-active knocks", check=False).returncode != 0, 900)
    assert machine.run("cat /root/knocks").stdout == "answered\n" * 15
    # From its restart on systemd holds the socket.
    assert machine.run("systemctl is-active rediacc-gate@gpu-a.socket").stdout == "active\n"


def test_views_follow_the_machines_specs_and_expiry(machine: Machine) -> None:
    view = "cat /run/rediacc/cdi/gpu-a/*"
    assert "/dev/kmsg" in machine.run(view).stdout
    machine.run("sed -i s,/dev/kmsg,/dev/fuse, /etc/cdi/nvidia.yaml")
    assert eventually(lambda: "/dev/fuse" in machine.run(view).stdout, 30)
    machine.run("sed -i s,/dev/fuse,/dev/kmsg, /etc/cdi/nvidia.yaml")
    # systemd does not look while the refresh ends: what changes just then waits for the timer.
    assert eventually(lambda: "/dev/kmsg" in machine.run(view).stdout, 90)
    until = machine.run("date -u -d '+20 seconds' +%Y-%m-%dT%H:%M:%SZ").stdout.strip()
    machine.run(f"renet gpu grant gpu-a --device nvidia.com/gpu=1 --expires {until}")
    assert "loop-control" in machine.run(view).stdout
    assert eventually(lambda: "loop-control" not in machine.run(view).stdout, 120)


def test_everything_is_back_after_a_reboot(machine: Machine) -> None:
    always = "run -d --restart=always --stop-timeout=1"
    docker(machine, f"{always} --name=held --device nvidia.com/gpu=0 busybox sleep 6000")
    docker(machine, f"{always} --name=plain busybox sleep 6000")
    machine.run("systemctl stop rediacc-docker@gpu-a.service")
    machine.run("renet gpu revoke gpu-a --device nvidia.com/gpu=0")
    at_boot = "d /run/nvidia-persistenced\nf /run/nvidia-persistenced/socket\n"
    machine.run("cat >/etc/tmpfiles.d/persistence.conf", input=at_boot)
    machine.reboot()
    state = "'{{.State.Status}}'"
    assert eventually(lambda: "running" in docker(machine, "inspect", "-f", state, "plain", check=False))
    assert "running" not in docker(machine, "inspect", "-f", state, "held")
    assert "has no grant" in opens(machine)
    machine.run("renet gpu grant gpu-a --device nvidia.com/gpu=0")
    assert "opened /dev/nvidia0" in opens(machine)
    test_doctor_finds_nothing_unsafe(machine)


def test_delete_leaves_nothing(machine: Machine) -> None:
    machine.run("renet repo create gpu-b --network host", timeout=300)
    docker(machine, "import", IMAGE_FILE, "busybox", name="gpu-b")
    docker(
        machine, "run", "-d", "--network=host", "--restart=always", "busybox", "sleep", "6000", name="gpu-b"
    )
    guid = json.loads(machine.run("renet repo list -o json").stdout)["data"][1]["guid"]
    short = guid.replace("-", "")[:12]
    machine.run("renet repo delete gpu-b", timeout=300)
    places = (
        f"/run/rediacc/*/*{short}* /run/rediacc/*gpu-b* /run/docker/plugins/*gpu-b* "
        "/etc/systemd/system/*gpu-b* /etc/systemd/system/*/*gpu-b* "
        f"/var/lib/rediacc/repos/{guid} /etc/rediacc/docker/gpu-b.json"
    )
    for look in (
        f"ls -d {places} 2>/dev/null",
        f"systemctl list-units --all --no-legend '*gpu-b*' '*{short}*'",
        f"grep {short} /proc/self/mountinfo",
        f"grep -l {short} /proc/[0-9]*/cgroup",
    ):
        assert machine.run(look, check=False).stdout == ""
    assert "opened /dev/nvidia0" in opens(machine)
    assert machine.run("systemctl is-system-running", check=False).stdout == "running\n"


def test_the_shipped_units_are_the_installed_ones(machine: Machine) -> None:
    assert (
        machine.run(
            "systemd-analyze verify --man=no rediacc-gate.service rediacc-docker@gpu-a.service"
        ).stderr
        == ""
    )

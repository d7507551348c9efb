"""The doctor finds bad states of real daemons, and its own commands make them good."""

import json
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.engine.daemon import FLAGS, Daemon
from tests.engine.machine import Machine
from tests.engine.obtain import Engine, obtain
from tests.engine.repositories import Repositories

Finding = Mapping[str, str]


@pytest.fixture
def machine(engine: Engine) -> Iterator[Machine]:
    with Machine(engine) as machine:
        yield machine


class Patient:
    """An adopted daemon, in order unless `change` or `flags` say otherwise, with the gate before it."""

    def __init__(
        self, machine: Machine, change: Mapping[str, object] | None = None, flags: tuple[str, ...] = ()
    ) -> None:
        self.machine = machine
        self.daemon = Daemon(machine.engine, plugin_dir=machine.layout.plugin_dir, flags=(*FLAGS, *flags))
        good: dict[str, object] = {
            "authorization-plugins": ["rediacc-gpu-a"],
            "builder": {"entitlements": {"device": False, "security-insecure": False}},
            "cdi-spec-dirs": [str(machine.layout.view_dir("gpu-a"))],
        }
        self.good = good
        changed = {**good, **(change or {})}
        self.daemon.configure({key: value for key, value in changed.items() if value is not None})
        machine.renet("repo", "adopt", "gpu-a", "--socket", str(self.daemon.socket), "--daemon-json",
                      str(self.daemon.config_file), "--data-root", str(self.daemon.data_root))  # fmt: skip
        machine.start_gate()

    def __enter__(self) -> "Patient":
        self.daemon.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.close()

    def fix(self, finding: Finding) -> None:
        """Do what the finding says, as an operator would."""
        command, _, rest = finding["fix"].partition(", then ")
        run(self.machine, command)
        if "restart the daemon" in rest:
            self.daemon.restart()


def run(machine: Machine, command: str) -> None:
    """Run a command as it is printed, with renet where this machine's files are."""
    for part in command.split(" && "):
        words = shlex.split(part)
        if words[0] == "renet":
            machine.renet(*words[1:])
        else:
            subprocess.run(words, check=True)


def problems(machine: Machine, *arguments: str) -> dict[str, Finding]:
    """What doctor has to say that is not in order, by the check's id; the exit status must agree."""
    done = machine.renet("doctor", *arguments, "-o", "json", check=False)
    answer = json.loads(done.stdout)["data"]
    found = {each["id"]: each for each in answer["findings"] if each["status"] != "ok"}
    failing = any(each["status"] == "failure" for each in found.values())
    assert (done.returncode, answer["healthy"]) == (int(failing), not failing)
    for each in found.values():
        assert each["why"]
        assert each["fix"]
    return found


#: What is no fault of a test's daemon: the engines that can be had are older than what is recommended.
USUAL = {"engine-version", "inventory-current"}


def test_a_daemon_in_order_is_found_in_order(machine: Machine) -> None:
    with Patient(machine):
        found = problems(machine)
        assert set(found) <= USUAL, found
        assert all(each["status"] == "warning" for each in found.values())


CONFIGURATIONS: list[tuple[str, Mapping[str, object]]] = [
    ("build-entitlements", {"builder": None}),
    ("build-entitlements", {"builder": {"entitlements": {"security-insecure": True, "device": False}}}),
    ("default-runtime", {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/sbin/runc"}}}),
    ("other-runtimes", {"runtimes": {"nvidia": {"path": "/usr/sbin/runc"}}}),
    ("spec-directories", {"cdi-spec-dirs": ["/etc/cdi", "/var/run/cdi"]}),
    ("experimental", {"experimental": True}),
    ("plugin-configured", {"authorization-plugins": None}),
]


@pytest.mark.parametrize(("identity", "change"), CONFIGURATIONS)
def test_an_open_configuration_is_found_and_closed(
    machine: Machine, identity: str, change: Mapping[str, object]
) -> None:
    with Patient(machine, change) as patient:
        found = problems(machine, "gpu-a")
        assert found[identity]["status"] == "failure"
        patient.fix(found[identity])
        assert set(problems(machine, "gpu-a")) <= USUAL
        assert list(patient.daemon.config_file.parent.glob("daemon.json.*.bak"))


def test_a_changed_file_does_not_hide_what_the_running_daemon_does(machine: Machine) -> None:
    runtimes = {"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/sbin/runc"}}}
    with Patient(machine, {**runtimes, "cdi-spec-dirs": ["/etc/cdi", "/var/run/cdi"]}) as patient:
        patient.daemon.configure(patient.good)
        found = problems(machine, "gpu-a")
        assert {"runtime-live", "spec-directories-live"} <= set(found)
        patient.fix(found["spec-directories-live"])
        assert set(problems(machine, "gpu-a")) <= USUAL


def test_a_plugin_on_the_command_line_alone(machine: Machine) -> None:
    flag = "--authorization-plugin=rediacc-gpu-a"
    with Patient(machine, {"authorization-plugins": None}, (flag,)) as patient:
        found = problems(machine, "gpu-a")
        assert "command line" in found["plugin-configured"]["found"]
        assert "plugin-live" not in found
        # What makes it dangerous: a reload, and the gate is asked nothing.
        patient.daemon.reload()
        assert "does not ask" in problems(machine, "gpu-a")["plugin-live"]["found"]
        refused = machine.renet("repo", "repair", "gpu-a", check=False)
        assert refused.returncode == 4
        assert "--authorization-plugin" in refused.stderr
        patient.daemon.flags = FLAGS
        patient.daemon.stop()
        machine.renet("repo", "repair", "gpu-a")
        patient.daemon.start()
        assert set(problems(machine, "gpu-a")) <= USUAL


def test_a_plugin_that_a_reload_has_dropped(machine: Machine) -> None:
    with Patient(machine) as patient:
        patient.daemon.configure({**patient.good, "authorization-plugins": []})
        patient.daemon.reload()
        pid = patient.daemon.pid
        found = problems(machine, "gpu-a")
        assert "does not ask" in found["plugin-live"]["found"]
        # The repair is read at once, without a restart.
        run(machine, found["plugin-live"]["fix"].partition(", then ")[0])
        deadline = time.monotonic() + 5
        while "plugin-live" in problems(machine, "gpu-a") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert set(problems(machine, "gpu-a")) <= USUAL
        assert patient.daemon.pid == pid


def test_a_daemon_that_listens_on_tcp(machine: Machine) -> None:
    with Patient(machine, flags=("--host=tcp://127.0.0.1:2375", "--tls=false")) as patient:
        found = problems(machine, "gpu-a")
        assert "2375" in found["tcp-listener"]["found"]
        assert "tcp://127.0.0.1:2375" in found["tcp-socket"]["found"]
        patient.daemon.flags = FLAGS
        patient.daemon.restart()
        assert set(problems(machine, "gpu-a")) <= USUAL


def test_an_engine_that_is_too_old_and_is_upgraded(machine: Machine) -> None:
    old = obtain("bookworm", floor=(20, 10))
    with Patient(machine) as patient:
        patient.daemon.stop()
        patient.daemon.engine = old
        # All that it knows of what is asked for, and its own key outside the machine's /etc/docker.
        known = {
            "authorization-plugins": ["rediacc-gpu-a"],
            "deprecated-key-path": str(patient.daemon.directory / "key.json"),
        }
        patient.daemon.config_file.write_text(json.dumps(known))
        patient.daemon.start()
        found = problems(machine, "gpu-a")["engine-version"]
        assert found["status"] == "failure"
        assert "Docker 20.10" in found["found"]
        assert "CVE-2024-41110" in found["why"]
        assert "apt-get install --only-upgrade docker.io" in found["fix"]
        # What that does: the programs are newer ones, and the daemon is started anew.
        patient.daemon.stop()
        patient.daemon.engine = machine.engine
        run(machine, "renet repo repair gpu-a")
        patient.daemon.start()
        assert set(problems(machine, "gpu-a")) <= USUAL


def test_an_engine_without_the_fix_for_large_bodies(machine: Machine) -> None:
    with Patient(machine) as patient:
        patient.daemon.stop()
        patient.daemon.engine = obtain("trixie")
        patient.daemon.start()
        found = problems(machine, "gpu-a")["engine-version"]
        assert found["status"] == "warning"
        assert "CVE-2026-34040" in found["found"]
        assert "apt-get install --only-upgrade docker.io" in found["fix"]
        # Debian has no engine with the fix yet; where the tests are given one, it is what the upgrade brings.
        patient.daemon.stop()
        patient.daemon.engine = machine.engine
        patient.daemon.start()
        still = "engine-version" in problems(machine, "gpu-a")
        assert still is (machine.engine.version < (29, 3))


def test_a_spec_that_offers_its_devices_to_builds(machine: Machine) -> None:
    path = machine.layout.cdi_dir / "nvidia.yaml"
    document = json.loads(path.read_text())
    document["cdiVersion"] = "0.6.0"
    document["devices"][0]["annotations"] = {"org.mobyproject.buildkit.device.autoallow": "true"}
    path.write_text(json.dumps(document))
    found = problems(machine)
    assert str(path) in found["no-auto-allow"]["found"]
    run(machine, found["no-auto-allow"]["fix"])
    assert "no-auto-allow" not in problems(machine)


@pytest.mark.parametrize(
    ("identity", "node"),
    [
        ("nodes-current", {"path": "/dev/null", "type": "c", "major": 1, "minor": 5}),
        ("nodes-current", {"path": "/dev/nvidia-is-gone"}),
        ("nodes-current", {"path": "/dev/null", "type": "b", "major": 1, "minor": 3}),
        ("nodes-current", {"path": "/etc/passwd"}),
    ],
)
def test_a_spec_that_is_stale_against_its_nodes(machine: Machine, identity: str, node: object) -> None:
    path = machine.layout.cdi_dir / "nvidia.yaml"
    document = json.loads(path.read_text())
    assert identity not in problems(machine)
    good = path.read_text()
    document["devices"][0]["containerEdits"]["deviceNodes"] = [node]
    path.write_text(json.dumps(document))
    assert problems(machine)[identity]["status"] == "failure"
    path.write_text(good)
    assert identity not in problems(machine)


def test_a_spec_whose_mount_is_gone(machine: Machine) -> None:
    path = machine.layout.cdi_dir / "nvidia.yaml"
    document = json.loads(path.read_text())
    socket_path = machine.directory / "run/nvidia-persistenced/socket"
    document["containerEdits"] = {
        "mounts": [{"hostPath": str(socket_path), "containerPath": "/run/nvidia-persistenced/socket"}]
    }
    path.write_text(json.dumps(document))
    found = problems(machine)["mounts-there"]
    assert found["fix"] == "systemctl start nvidia-persistenced"
    socket_path.parent.mkdir(parents=True)
    socket_path.touch()
    assert "mounts-there" not in problems(machine)


def test_a_spec_for_another_driver_than_the_one_that_runs(machine: Machine) -> None:
    module = machine.directory / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text("555.42.06\n")
    path = machine.layout.cdi_dir / "nvidia.yaml"
    document = json.loads(path.read_text())
    library = machine.directory / "usr/lib/libcuda.so.535.129.03"
    library.parent.mkdir(parents=True)
    library.touch()
    document["containerEdits"] = {"mounts": [{"hostPath": str(library), "containerPath": str(library)}]}
    path.write_text(json.dumps(document))
    assert "535.129.03, and 555.42.06 runs" in problems(machine)["driver-current"]["found"]
    (module / "version").write_text("535.129.03\n")
    assert "driver-current" not in problems(machine)


def test_sockets_that_others_may_use(machine: Machine) -> None:
    with Patient(machine) as patient:
        for path, identity in (
            (patient.daemon.socket, "api-socket"),
            (machine.layout.plugin_socket("gpu-a"), "plugin-socket"),
        ):
            path.chmod(0o666)
            found = problems(machine, "gpu-a")
            assert set(found) - USUAL == {identity}
            run(machine, found[identity]["fix"])
            assert set(problems(machine, "gpu-a")) <= USUAL


def test_a_spec_directory_that_others_may_write(machine: Machine) -> None:
    machine.layout.cdi_dir.chmod(0o777)
    found = problems(machine)
    run(machine, found["specs-protected"]["fix"])
    assert "specs-protected" not in problems(machine)


def test_a_dead_plugin_socket(machine: Machine) -> None:
    dead = machine.layout.plugin_dir / "other.sock"
    dead.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
        listener.listen()
        assert "plugin-sockets-alive" not in problems(machine)
    found = problems(machine)
    run(machine, found["plugin-sockets-alive"]["fix"])
    assert "plugin-sockets-alive" not in problems(machine)


def test_a_gate_that_is_away_is_said_at_once(machine: Machine) -> None:
    with Patient(machine):
        machine.stop_gate()
        begin = time.monotonic()
        found = problems(machine, "gpu-a")
        assert {"gate-answers", "daemon-running"} <= set(found)
        # dockerd itself would try its plugin for 15 s and more.
        assert time.monotonic() - begin < 5
        machine.start_gate()
        assert set(problems(machine, "gpu-a")) <= USUAL


def test_damaged_grants(machine: Machine) -> None:
    machine.layout.grants.parent.mkdir(parents=True, exist_ok=True)
    machine.layout.grants.write_text("{")
    machine.layout.grants.chmod(0o600)
    assert problems(machine)["files-trusted"]["status"] == "failure"
    machine.layout.grants.unlink()
    assert "files-trusted" not in problems(machine)


def test_a_created_daemon_whose_view_is_gone(engine: Engine) -> None:
    with Repositories(engine) as machine:
        machine.create("gpu-a", image=False)
        assert set(problems(machine)) <= USUAL
        enter = ["nsenter", "--mount", "--root", f"--target={machine.daemon_pid('gpu-a')}"]
        subprocess.run([*enter, "umount", "/etc/cdi"], check=True)
        assert problems(machine)["view-in-place"]["status"] == "failure"
        machine.end("gpu-a")
        machine.run("gpu-a")
        assert set(problems(machine)) <= USUAL


def test_a_mount_that_a_daemon_does_not_see(engine: Engine) -> None:
    with Repositories(engine) as machine:
        hidden = machine.layout.register.parent / "library.so"
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.touch()
        path = machine.layout.cdi_dir / "nvidia.yaml"
        document = json.loads(path.read_text())
        document["containerEdits"] = {"mounts": [{"hostPath": str(hidden), "containerPath": "/x"}]}
        path.write_text(json.dumps(document))
        machine.create("gpu-a", image=False)
        assert str(hidden) in problems(machine)["mounts-visible"]["found"]


def test_everything_is_said_to_a_person_too(machine: Machine) -> None:
    with Patient(machine, {"builder": None}):
        done = machine.renet("doctor", check=False)
        assert done.returncode == 1
        assert "FAILURE gpu-a: builder.entitlements is not set" in done.stdout
        assert "fix: renet repo repair gpu-a" in done.stdout
        assert "1 failure," in done.stdout.splitlines()[-1]


def test_the_whole_machine_is_looked_at_in_seconds(engine: Engine) -> None:
    with Repositories(engine) as machine:
        for number in range(6):
            machine.command("repo", "create", f"r{number}", "--network", "host")
        begin = time.monotonic()
        machine.command("doctor", check=False)
        assert time.monotonic() - begin < 10

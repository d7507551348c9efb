"""What was made before, or under a grant that is gone, does not start: on a real dockerd."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.engine.attacker import Attacker, logged
from tests.engine.image import IMAGE
from tests.engine.machine import Machine
from tests.engine.obtain import Engine
from tests.engine.test_escapes import CLOSED

DENIED = "authorization denied by plugin rediacc-tenant"


@pytest.fixture(scope="module")
def machine(engine: Engine) -> Iterator[Machine]:
    with Machine(engine) as machine:
        yield machine


@pytest.fixture(scope="module")
def tenant(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Attacker:
    """A repository whose daemon was there before the gate, with what its tenant made then."""
    daemon = machine.add_repository("tenant")
    machine.start_gate()
    gated = json.loads(daemon.config_file.read_text())
    before = {name: value for name, value in gated.items() if name != "authorization-plugins"}
    daemon.config_file.write_text(json.dumps(before))
    daemon.start()
    daemon.load_image()
    for name, options in BEFORE.items():
        daemon.docker("create", "--name", name, *options, IMAGE, "true")
    daemon.docker("volume", "create", "-o", "type=devtmpfs", "-o", "device=devtmpfs", "old-devices")
    daemon.docker("volume", "create", "-o", "type=none", "-o", "o=bind", "-o", "device=/", "old-root")
    daemon.docker("volume", "create", "old-data")
    daemon.docker("create", "--name", "on-old-devices", "-v", "old-devices:/d", IMAGE, "true")
    daemon.config_file.write_text(json.dumps({**gated, "builder": {"entitlements": CLOSED}}))
    daemon.reload()
    return Attacker(daemon, machine.layout, tmp_path_factory.mktemp("tenant"))


BEFORE = {
    "was-privileged": ["--privileged"],
    "had-a-device": ["--device", "/dev/null:/dev/x"],
    "had-a-rule": ["--device-cgroup-rule", "c 1:3 rwm"],
    "had-the-root": ["-v", "/:/host"],
    "had-the-processes": ["--pid", "host"],
    "was-unmasked": ["--security-opt", "systempaths=unconfined"],
    "had-sys-admin": ["--cap-add", "SYS_ADMIN"],
    "had-a-cgroup-parent": ["--cgroup-parent", "/elsewhere"],
    "had-an-annotation": ["--annotation", "a=b"],
    "had-a-gpu": ["--device", "nvidia.com/gpu=0"],
}
RULES = {
    "was-privileged": "privileged",
    "had-a-device": "raw-device",
    "had-a-rule": "device-cgroup-rule",
    "had-the-root": "bind-hardware",
    "had-the-processes": "host-pid",
    "was-unmasked": "unmasked-paths",
    "had-sys-admin": "kernel-capability",
    "had-a-cgroup-parent": "annotation",
    "had-an-annotation": "annotation",
    "had-a-gpu": "device-not-granted",
    "on-old-devices": "raw-mount",
}


def rule_in(tenant: Attacker, said: str) -> str:
    """The rule of the denial in `said`."""
    return logged(tenant.layout, said)["rule"]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("how", ["start", "restart"])
def test_a_container_from_before_the_gate_does_not_start(tenant: Attacker, name: str, how: str) -> None:
    said = tenant.docker(how, name)
    assert DENIED in said
    assert rule_in(tenant, said) == RULES[name]


@pytest.mark.parametrize("name", [name for name in RULES if name != "had-a-gpu"])
def test_nor_does_it_take_the_name_of_one_that_may(tenant: Attacker, name: str) -> None:
    assert DENIED in tenant.docker("rename", name, "innocent")


def test_compose_may_rename_what_has_lost_its_grant(tenant: Attacker) -> None:
    assert tenant.docker("rename", "had-a-gpu", "old-gpu") == ""
    assert tenant.docker("rename", "old-gpu", "had-a-gpu") == ""


@pytest.mark.parametrize("volume", ["old-devices", "old-root"])
@pytest.mark.parametrize("options", [["-v", "{}:/v"], ["--mount", "type=volume,src={},dst=/v"]])
def test_a_volume_from_before_the_gate_is_not_mounted(
    tenant: Attacker, volume: str, options: list[str]
) -> None:
    filled = [option.format(volume) for option in options]
    assert DENIED in tenant.docker("run", "--rm", *filled, IMAGE, "ls", "/v")


def test_a_plain_volume_from_before_the_gate_is(tenant: Attacker) -> None:
    assert tenant.docker("run", "--rm", "-v", "old-data:/v", IMAGE, "ls", "/v") == ""


def test_volumes_of_another_container_count_at_the_start(tenant: Attacker) -> None:
    said = tenant.docker("run", "--name", "heir", "--volumes-from", "had-the-root", IMAGE, "ls", "/host")
    assert DENIED in said
    tenant.docker("rm", "-f", "heir")


def test_a_link_that_is_turned_after_the_create_is_seen_at_the_start(tenant: Attacker) -> None:
    place = tenant.files / "place"
    place.mkdir()
    assert DENIED not in tenant.docker("create", "--name", "turned", "-v", f"{place}:/x", IMAGE, "ls", "/x")
    place.rmdir()
    place.symlink_to("/dev")
    assert rule_in(tenant, tenant.docker("start", "turned")) == "bind-hardware"
    tenant.docker("rm", "-f", "turned")


@pytest.mark.parametrize("target", ["/dev", "/root", "/etc/cron.d"])
def test_nor_is_it_followed_by_a_copy(tenant: Attacker, target: str) -> None:
    # The daemon mounts a container's binds to copy, and asks nobody to start it.
    place = tenant.files / "copied"
    place.mkdir()
    assert DENIED not in tenant.docker("create", "--name", "copied", "-v", f"{place}:/x", IMAGE, "ls", "/x")
    assert tenant.docker("cp", "copied:/x", str(tenant.files / "before")) == ""
    place.rmdir()
    place.symlink_to(target)
    planted = tenant.files / "planted"
    planted.write_text("x")
    assert DENIED in tenant.docker("cp", "copied:/x", str(tenant.files / "after"))
    assert DENIED in tenant.docker("cp", str(planted), "copied:/x/planted")
    assert " 403 " in tenant.raw("HEAD /containers/copied/archive?path=/x", headers=())
    assert DENIED in tenant.docker("start", "copied")
    tenant.docker("rm", "-f", "copied")
    place.unlink()


@pytest.mark.parametrize("name", [name for name in RULES if name != "had-a-gpu"])
def test_nothing_is_copied_through_a_container_from_before(tenant: Attacker, name: str) -> None:
    assert DENIED in tenant.docker("cp", f"{name}:/etc/passwd", "-")


def test_copies_of_what_has_lost_its_grant_are_fine(tenant: Attacker) -> None:
    assert "root:x:0" in tenant.docker("cp", "had-a-gpu:/etc/passwd", "-")


def test_a_grant_counts_from_the_next_start_on_and_so_does_its_end(
    tenant: Attacker, machine: Machine
) -> None:
    machine.renet("gpu", "grant", "tenant", "--device", "nvidia.com/gpu=0")
    assert "opened" in tenant.docker(
        "run", "--name", "job", "--device", "nvidia.com/gpu=0", IMAGE, "open-device", "/dev/nvidia0"
    )
    assert tenant.docker("start", "job") == "job\n"
    assert tenant.docker("restart", "-t", "0", "job") == "job\n"
    machine.renet("gpu", "revoke", "tenant", "--device", "nvidia.com/gpu=0")
    for how in ("start", "restart"):
        said = tenant.docker(how, "job")
        assert "has no grant for nvidia.com/gpu=0" in said
        assert "rdc repo gpu grant tenant --device nvidia.com/gpu=0" in said
    machine.renet("gpu", "grant", "tenant", "--device", "nvidia.com/gpu=0", "--expires", "2s")
    assert tenant.docker("start", "job") == "job\n"
    time.sleep(2.1)
    assert "has no grant" in tenant.docker("start", "job")
    tenant.docker("rm", "-f", "job")


def test_a_name_that_begins_another_containers_id_is_not_followed(tenant: Attacker) -> None:
    identity = json.loads(tenant.docker("inspect", "was-privileged"))[0]["Id"]
    decoy = identity[:6]
    tenant.docker("create", "--name", decoy, IMAGE, "true")
    said = tenant.docker("start", decoy)
    assert DENIED in said
    assert "full id" in said
    assert tenant.docker("start", json.loads(tenant.docker("inspect", decoy))[0]["Id"]).strip() != ""
    assert DENIED in tenant.docker("start", identity[:12])
    tenant.docker("rm", "-f", decoy)


def test_names_that_look_like_ids_are_fine(tenant: Attacker) -> None:
    tenant.docker("create", "--name", "fade", IMAGE, "true")
    assert tenant.docker("start", "fade") == "fade\n"
    tenant.docker("rm", "-f", "fade")


def test_many_starts_at_once(tenant: Attacker) -> None:
    names = [f"crowd-{number}" for number in range(12)]
    for name in names:
        tenant.post(f"/containers/create?name={name}", {"Image": IMAGE, "Cmd": ["true"]})
    answers: dict[str, str] = {}

    def start(name: str) -> None:
        answers[name] = tenant.raw(f"POST /containers/{name}/start", headers=())

    threads = [threading.Thread(target=start, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == len(names)
    assert all(" 204 " in answer for answer in answers.values())
    for name in names:
        tenant.raw(f"DELETE /containers/{name}?force=1")


def test_a_daemon_that_does_not_answer_means_no_and_delays_nobody_else(
    machine: Machine, tenant: Attacker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("mute") / "docker.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen(64)
        machine.renet(
            "repo", "adopt", "mute", "--socket", str(path), "--data-root", str(path.parent / "data"),
            "--daemon-json", str(path.parent / "daemon.json"), check=False,
        )  # fmt: skip
        plugin = machine.layout.plugin_socket("mute")
        deadline = time.monotonic() + 5
        while not plugin.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        outcome: dict[str, object] = {}

        def ask() -> None:
            started = time.monotonic()
            outcome["answer"] = ask_gate(str(plugin), "POST", "/containers/x/start")
            outcome["took"] = time.monotonic() - started

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        started = time.monotonic()
        tenant.raw("GET /_ping")
        assert time.monotonic() - started < 3
        for thread in threads:
            thread.join(20)
        answer = outcome["answer"]
        assert isinstance(answer, dict)
        assert answer["Allow"] is False
        assert "could not learn" in answer["Msg"]
        assert isinstance(outcome["took"], float)
        assert outcome["took"] < 15


def ask_gate(plugin: str, method: str, target: str) -> dict[str, object]:
    """What the gate answers to dockerd's question."""
    message = json.dumps({"RequestMethod": method, "RequestUri": target}).encode()
    head = "POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nHost: plugin\r\nConnection: close\r\n"
    head += f"Content-Length: {len(message)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(plugin)
        connection.sendall(head.encode() + message)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return json.loads(answer.partition(b"\r\n\r\n")[2])  # type: ignore[no-any-return]


def refused_build(tenant: Attacker) -> str:
    """What a client of the classic builder is told."""
    said = tenant.raw("POST /build?version=1", b"", (("Content-Type", "application/x-tar"),))
    assert DENIED in said
    assert rule_in(tenant, said) == "build-device"
    return said


def test_builds_pass_where_the_entitlements_are_closed(tenant: Attacker, machine: Machine) -> None:
    context = tenant.files / "build"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo built\n")
    assert "built" in tenant.docker("build", "--progress", "plain", "--no-cache", str(context))
    spec = machine.layout.cdi_dir / "auto.json"
    # Where the daemon's own builder is refused, buildx goes on to a builder in a privileged container.
    node = {"path": "/dev/auto", "hostPath": "/dev/null"}
    device = {
        "name": "x",
        "annotations": {"org.mobyproject.buildkit.device.autoallow": "true"},
        "containerEdits": {"deviceNodes": [node]},
    }
    spec.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "example.com/auto", "devices": [device]}))
    try:
        assert "autoallow" in refused_build(tenant)
        assert tenant.daemon.docker("build", str(context), check=False).returncode != 0
    finally:
        spec.unlink()
    closed = json.loads(tenant.daemon.config_file.read_text())
    tenant.daemon.config_file.write_text(
        json.dumps({**closed, "builder": {"entitlements": {"device": True}}})
    )
    assert "builder.entitlements.device" in refused_build(tenant)
    tenant.daemon.config_file.write_text(json.dumps(closed))


def test_the_operators_options_count_from_the_next_request_on(tenant: Attacker, machine: Machine) -> None:
    options = machine.layout.gate_options
    assert DENIED in tenant.docker("run", "--rm", "--ipc", "host", IMAGE, "true")
    options.write_text("version: 1\nrepositories: {tenant: {allow: {host-ipc: true}}}\n")
    assert tenant.docker("run", "--rm", "--ipc", "host", IMAGE, "true") == ""
    assert DENIED in tenant.docker("run", "--rm", "--uts", "host", IMAGE, "true")
    options.write_text("version: 1\nrepositories: {tenant: {allow: {host-ipc: yes, privileged: true}}}\n")
    assert DENIED in tenant.docker("run", "--rm", "--ipc", "host", IMAGE, "true")
    options.unlink()

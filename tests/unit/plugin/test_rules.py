"""The rules, and the tables that they and the documentation are made of."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plugin import rules
from plugin.bodies import (
    CREATE_FIELDS,
    EXEC_FIELDS,
    FLOOR_VERSION,
    HOST_CONFIG,
    NEWEST_VERSION,
    UPDATE_FIELDS,
)
from plugin.context import Volume
from plugin.decide import Decision
from plugin.rules import catalogue
from plugin.rules.catalogue import BY_ID, RULES, Tier
from plugin.rules.page import page
from tests.unit.plugin import vectors
from tests.unit.plugin.machine import USUAL, Machine, ask_gate, context, post
from tests.unit.plugin.test_vectors import EXPECTED

DOCS = Path(__file__).parents[3] / "docs/rules.md"


def create(
    machine: Machine = USUAL, relaxed: dict[str, frozenset[str]] | None = None, **host_config: Any
) -> Decision:
    body = json.dumps({"Image": "alpine", "HostConfig": host_config}).encode()
    where = context("nvidia.com/gpu=0")
    where.relaxed.update(relaxed or {})  # type: ignore[attr-defined]  # a dict in these tests
    return ask_gate(post("/containers/create", body), where, machine)


def rule_of(decision: Decision) -> str:
    return decision.denial.rule if decision.denial else ""


def test_the_page_is_current() -> None:
    assert DOCS.read_text() == page(), "run: python -m plugin.rules.page >docs/rules.md"


def test_every_judged_field_has_its_rule_and_every_rule_its_field() -> None:
    judged = {name for name, known in HOST_CONFIG.items() if known.rule}
    assert judged == set(rules.HOST_CONFIG) == set(rules.STORED)
    assert {name for name, known in UPDATE_FIELDS.items() if known.rule} == set(rules.UPDATE)
    named = {rule for known in HOST_CONFIG.values() for rule in filter(None, known.rule.split(", "))}
    assert named <= set(BY_ID)


def test_every_field_that_mobys_decoder_filled_is_in_the_tables() -> None:
    tables = {"Config": CREATE_FIELDS, "HostConfig": HOST_CONFIG, "ExecCreateRequest": EXEC_FIELDS}
    filled: dict[str, set[str]] = {}
    for case in vectors.load("go-json")["cases"]:
        for struct, names in case.get("other_fields", {}).items():
            filled.setdefault(struct, set()).update(names)
    for struct, table in {**tables, "UpdateConfig": UPDATE_FIELDS}.items():
        assert filled[struct] <= set(table)


def test_what_the_api_once_had_or_has_since_is_within_its_versions() -> None:
    for fields in (HOST_CONFIG, CREATE_FIELDS, EXEC_FIELDS, UPDATE_FIELDS):
        for known in fields.values():
            for version in filter(None, (known.since, known.until)):
                assert re.fullmatch(r"1\.\d\d", version)
                assert FLOOR_VERSION <= version <= NEWEST_VERSION


def test_ids_are_one_of_a_kind_and_described() -> None:
    assert len(BY_ID) == len(RULES)
    for rule in RULES:
        assert rule.denies.endswith(".")
        assert rule.why.endswith(".")
        assert bool(rule.relaxed_by) == (rule.tier is Tier.HOST)


def test_every_rule_is_used_and_none_is_made_up() -> None:
    sources = Path(catalogue.__file__).parents[1]
    text = "".join(
        path.read_text() for path in sources.rglob("*.py") if path.name not in {"catalogue.py", "bodies.py"}
    )
    quoted = set(re.findall(r'"([a-z]+(?:-[a-z]+)+|privileged|runtime|annotation|swarm|checkpoint)"', text))
    assert set(BY_ID) <= quoted


def test_the_recorded_requests_meet_nearly_every_rule() -> None:
    met = {rule for found in EXPECTED.values() for rule in found}
    assert set(BY_ID) - met <= {
        "bind-system", "extra-capability", "host-network-driver", "security-option", "unknown-endpoint",
        "unknown-repository", "grants-unreadable", "host-cgroupns",
    }  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/srv/x", "/home/a/b", "/mnt", "/data", "/opt/app", "/tmp/x", "/var/www/site", "//srv//x/../y/"]
)
@pytest.mark.parametrize("mode", ["", ":ro", ":rw", ":z", ":ro,rslave"])
def test_ordinary_places(path: str, mode: str) -> None:
    assert create(Binds=[f"{path}:/x{mode}"]).allow
    assert create(Mounts=[{"Type": "bind", "Source": path, "Target": "/x"}]).allow


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/", "bind-hardware"),
        ("/.", "bind-hardware"),
        ("/srv/..", "bind-hardware"),
        ("/dev", "bind-hardware"),
        ("//dev///shm/", "bind-hardware"),
        ("/proc/sys", "bind-hardware"),
        ("/sys/fs/cgroup", "bind-hardware"),
        ("/etc", "bind-control"),
        ("/etc/cdi/nvidia.yaml", "bind-control"),
        ("/etc/docker/daemon.json", "bind-control"),
        ("/etc/rediacc/gpu", "bind-control"),
        ("/var", "bind-control"),
        ("/var/run", "bind-control"),
        ("/var/run/docker.sock", "bind-control"),
        ("/run/docker/plugins/x.sock", "bind-control"),
        ("/run/containerd/containerd.sock", "bind-control"),
        ("/home/someone/.docker/run/docker.sock", "bind-control"),
        ("/run/systemd/private", "bind-control"),
        ("/run/dbus/system_bus_socket", "bind-control"),
        ("/usr", "bind-control"),
        ("/var/lib/docker/volumes", "bind-control"),
        ("/opt", "bind-control"),  # the gate's own program lies below
        ("/opt/rediacc-gpu-gate/plugin", "bind-control"),
        ("/var/lib/rediacc/repos", "bind-control"),
        ("/var/lib/rediacc/repos/22222222-2222-4222-8222-222222222222/files", "bind-control"),
        ("/var/lib/rediacc/repos/11111111-1111-4111-8111-111111111111", "bind-control"),
        ("/var/lib/rediacc/repos/11111111-1111-4111-8111-111111111111/docker/x", "bind-control"),
        ("/run/docker-gpu-a/x", "bind-control"),
        ("/root", "bind-system"),
        ("/boot", "bind-system"),
        ("/etc/shadow", "bind-system"),
        ("/usr/bin", "bind-system"),
        ("/var/log", "bind-control"),  # the gate's own log lies below
        ("/var/log/nginx", "bind-system"),
        ("/unheard-of", "bind-system"),
        ("/srvx", "bind-system"),
    ],
)  # fmt: skip
def test_other_places(path: str, rule: str) -> None:
    assert rule_of(create(Binds=[f"{path}:/x:ro"])) == rule
    assert (
        rule_of(create(Mounts=[{"Type": "bind", "Source": path, "Target": "/x", "ReadOnly": True}])) == rule
    )
    options = {"type": "none", "o": "bind,ro", "device": path}
    volume = json.dumps({"Name": "v", "DriverOpts": options}).encode()
    assert rule_of(ask_gate(post("/volumes/create", volume), context())) == rule


def test_the_repositorys_own_files_and_socket() -> None:
    own = "/var/lib/rediacc/repos/11111111-1111-4111-8111-111111111111"
    assert create(Binds=[f"{own}/files:/x"]).allow
    assert create(Binds=["/run/rediacc/docker-gpu-a.sock:/var/run/docker.sock"]).allow
    assert rule_of(create(Binds=["/run/rediacc/docker-gpu-b.sock:/x"])) == "bind-control"


@pytest.mark.parametrize("path", ["/etc/localtime", "/etc/timezone", "/etc/ssl/certs", "/etc/passwd"])
def test_everyday_files_are_read_only(path: str) -> None:
    assert create(Binds=[f"{path}:{path}:ro"]).allow
    assert rule_of(create(Binds=[f"{path}:{path}"])) == "bind-system"
    assert rule_of(create(Binds=[f"{path}x:/x:ro"])) == "bind-system"
    elsewhere = Machine(links={path: "/etc/shadow"})
    assert rule_of(create(elsewhere, Binds=[f"{path}:{path}:ro"])) == "bind-system"


def test_links_are_judged_by_where_they_lead() -> None:
    machine = Machine(
        links={
            "/srv/a": "/srv/b",
            "/srv/b": "/dev",
            "/srv/c": "/etc/cdi",
            "/srv/d": "/usr",
            "/srv/e": "/home",
        }
    )
    assert rule_of(create(machine, Binds=["/srv/a/dri:/x"])) == "bind-hardware"
    assert rule_of(create(machine, Binds=["/srv/c:/x"])) == "bind-control"
    assert rule_of(create(machine, Binds=["/srv/d/share:/x"])) == "bind-system"
    assert create(machine, Binds=["/srv/e:/x"]).allow


def test_nodes_and_kernel_file_systems_anywhere() -> None:
    machine = Machine(devices=frozenset({"/srv/node"}), kernel_mounts={"/srv/jail": ("/srv/jail/dev",)})
    assert rule_of(create(machine, Binds=["/srv/node:/x"])) == "bind-hardware"
    assert rule_of(create(machine, Binds=["/srv/jail:/x"])) == "bind-hardware"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        ":",
        ":/x",
        "relative/path:/x",
        "./x:/x",
        "/srv:/x:ro:extra",
        "/srv:/x:weird",
        "/srv:/x:",
        "a b:/x",
        "/srv/\u0007:/x",
        "-v:/x",
    ],
)
def test_binds_that_are_none(entry: str) -> None:
    assert not create(Binds=[entry]).allow or ":" not in entry


@pytest.mark.parametrize("propagation", ["shared", "rshared", "ro,shared"])
def test_shared_propagation(propagation: str) -> None:
    assert rule_of(create(Binds=[f"/srv:/x:{propagation}"])) == "raw-mount"


@pytest.mark.parametrize("kind", ["npipe", "cluster", "BIND", "", None, "overlay"])
def test_other_mount_types(kind: str | None) -> None:
    assert rule_of(create(Mounts=[{"Type": kind, "Source": "x", "Target": "/x"}])) == "raw-mount"


ALLOWED_VOLUMES: list[dict[str, str]] = [
    {},
    {"type": "", "o": "", "device": ""},
    {"type": "tmpfs", "device": "tmpfs", "o": "size=100m,uid=1000,noexec"},
    {"type": "nfs", "device": ":/export", "o": "addr=10.0.0.10,rw,nfsvers=4.1,soft"},
    {"type": "nfs4", "device": "10.0.0.10:/export", "o": "addr=10.0.0.10"},
    {"type": "cifs", "device": "//nas/share", "o": "addr=10.0.0.10,username=u,password=p,file_mode=0777"},
    {"type": "none", "o": "bind", "device": "/srv/x"},
    {"type": "none", "o": "rbind,ro,nosuid", "device": "/home/u/x"},
    {"size": "10G"},
]
REFUSED_VOLUMES: list[dict[str, str]] = [
    {"type": "ext4", "device": "/dev/sda1"},
    {"type": "devtmpfs", "device": "devtmpfs"},
    {"type": "proc", "device": "proc"},
    {"type": "overlay", "device": "overlay", "o": "lowerdir=/etc"},
    {"type": "tmpfs", "device": "tmpfs", "o": "size=1m,remount"},
    {"type": "tmpfs", "device": "tmpfs", "o": "lowerdir=/etc"},
    {"type": "nfs", "device": ":/x", "o": "addr=10.0.0.1,credentials=/etc/shadow"},
    {"type": "nfs", "device": "/dev", "o": "addr=10.0.0.1,bind"},
    {"type": "none", "o": "bind", "device": "dev"},
    {"type": "none", "o": "bind"},
    {"type": "none", "o": "bind,shared", "device": "/srv"},
    {"type": "none", "o": "bind,remount", "device": "/srv"},
    {"type": "none", "o": "BIND", "device": "/srv"},
    {"type": "none", "device": "/srv"},
    {"type": "NFS", "device": ":/x", "o": "addr=10.0.0.1"},
    {"type": "fuse.x", "device": "x"},
    {"Type": "none"},
    {"upperdir": "/etc"},
    {"device": "/dev/sda"},
    {"o": "ro"},
]


@pytest.mark.parametrize("options", ALLOWED_VOLUMES + REFUSED_VOLUMES, ids=str)
def test_volume_options_are_one_thing_wherever_they_stand(options: dict[str, str]) -> None:
    expected = "" if options in ALLOWED_VOLUMES else "raw-mount"
    body = json.dumps({"Name": "v", "Driver": "local", "DriverOpts": options}).encode()
    assert rule_of(ask_gate(post("/volumes/create", body), context())) == expected
    config = {"Name": "local", "Options": options}
    mount = {"Type": "volume", "Target": "/x", "VolumeOptions": {"DriverConfig": config}}
    assert rule_of(create(Mounts=[mount])) == expected
    stored = Machine(volumes={"old": Volume("local", options)})
    assert rule_of(create(stored, Binds=["old:/x"])) == expected
    assert rule_of(create(stored, Mounts=[{"Type": "volume", "Source": "old", "Target": "/x"}])) == expected


def test_volume_drivers() -> None:
    assert create(VolumeDriver="local").allow
    assert rule_of(create(VolumeDriver="nvidia-docker")) == "raw-mount"
    assert rule_of(create(Machine(volumes={"old": Volume("sshfs", {})}), Binds=["old:/x"])) == "raw-mount"


CASES: list[tuple[dict[str, Any], str]] = [
    ({"CapAdd": ["NET_RAW", "cap_chown", "Cap_Sys_Ptrace", "IPC_LOCK"]}, ""),
    ({"CapAdd": ["NET_ADMIN"]}, "extra-capability"),
    ({"CapAdd": ["NET_ADMIN", "all"]}, "kernel-capability"),
    ({"CapAdd": ["SYS_TIME"]}, "kernel-capability"),
    ({"CapAdd": ["CAP_CAP_CHOWN"]}, "kernel-capability"),
    ({"CapAdd": ["CAP_NEW_IN_LINUX_9"]}, "kernel-capability"),
    ({"CapDrop": ["ALL"]}, ""),
    ({"Runtime": "runc"}, ""),
    ({"Runtime": "io.containerd.runc.v2"}, ""),
    ({"Runtime": "io.containerd.runc.v1"}, "runtime"),
    ({"Runtime": "RUNC"}, "runtime"),
    ({"PidMode": "container:x"}, ""),
    ({"PidMode": "host"}, "host-pid"),
    ({"PidMode": "container"}, "host-pid"),
    ({"IpcMode": "shareable"}, ""),
    ({"IpcMode": "container:x"}, ""),
    ({"IpcMode": "host"}, "host-ipc"),
    ({"UTSMode": "host"}, "host-uts"),
    ({"UsernsMode": "host"}, "host-userns"),
    ({"CgroupnsMode": "private"}, ""),
    ({"CgroupnsMode": "host"}, "host-cgroupns"),
    ({"NetworkMode": "host"}, ""),
    ({"NetworkMode": "container:x"}, ""),
    ({"CgroupParent": "x"}, "annotation"),
    ({"Annotations": {"a": ""}}, "annotation"),
    ({"Annotations": {}}, ""),
    ({"MaskedPaths": None, "ReadonlyPaths": None}, ""),
    ({"MaskedPaths": []}, "unmasked-paths"),
    ({"ReadonlyPaths": ["/proc/sys"]}, "unmasked-paths"),
    ({"SecurityOpt": ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=false"]}, ""),
    ({"SecurityOpt": ["seccomp=builtin", "apparmor=docker-default", "writable-cgroups=false"]}, ""),
    ({"SecurityOpt": ["seccomp:unconfined"]}, "security-option"),
    ({"SecurityOpt": ["label=disable"]}, "security-option"),
    ({"SecurityOpt": ["disable"]}, "security-option"),
    ({"SecurityOpt": ["systempaths=unconfined"]}, "unmasked-paths"),
    ({"SecurityOpt": ["writable-cgroups"]}, "unmasked-paths"),
    ({"SecurityOpt": ["writable-cgroups=1"]}, "unmasked-paths"),
    ({"SecurityOpt": ["no-new-privileges=maybe"]}, "security-option"),
    ({"LogConfig": {"Type": "local", "Config": {"max-size": "1m"}}}, ""),
    ({"LogConfig": {"Type": "fluentd", "Config": {}}}, "security-option"),
    ({"Sysctls": {"net.core.somaxconn": "1", "kernel.msgmax": "1", "fs.mqueue.msg_max": "1"}}, ""),
    ({"Sysctls": {"kernel.core_pattern": "|/x"}}, "security-option"),
    ({"Sysctls": {"net/../kernel.core_pattern": "x"}}, "security-option"),
    ({"StorageOpt": {"size": "10G"}}, ""),
    ({"StorageOpt": {"other": "x"}}, "security-option"),
    ({"Tmpfs": {"/t": "rw,size=1m,mode=1777,noexec", "/u": ""}}, ""),
    ({"Tmpfs": {"/t": "rbind"}}, "raw-mount"),
    ({"Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"Options": [["noexec"]]}}]}, ""),
    ({"Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"Options": [["bind"]]}}]}, "raw-mount"),
    ({"Mounts": [{"Type": "image", "Source": "busybox", "Target": "/t"}]}, ""),
    ({"Umask": 0o027}, ""),
    ({"Umask": -1}, "unreadable-request"),
    ({"Devices": []}, ""),
    ({"Devices": [{}]}, "raw-device"),
    ({"DeviceCgroupRules": [""]}, "device-cgroup-rule"),
    ({"DeviceRequests": []}, ""),
    ({"DeviceRequests": [{}]}, "device-request-form"),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [""]}]}, "device-request-form"),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}, ""),
    (
        {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]}]},
        "device-not-granted",
    ),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["NVIDIA.com/gpu=0"]}]}, "device-not-granted"),
]


@pytest.mark.parametrize(("fields", "rule"), CASES, ids=[json.dumps(fields)[:90] for fields, _ in CASES])
def test_fields(fields: dict[str, Any], rule: str) -> None:
    assert rule_of(create(**fields)) == rule


def test_hardware_comes_before_what_may_be_relaxed() -> None:
    decision = create(IpcMode="host", UTSMode="host", Privileged=True, Binds=["/boot:/b", "/dev:/d"])
    assert rule_of(decision) in {"privileged", "bind-hardware"}
    assert {denial.rule for denial in decision.others} == {"bind-hardware", "host-ipc", "host-uts"}


RELAXATIONS = [
    ("host-ipc", "true", {"IpcMode": "host"}),
    ("host-uts", "true", {"UTSMode": "host"}),
    ("extra-capability", "NET_ADMIN", {"CapAdd": ["cap_net_admin"]}),
    ("security-option", "seccomp=unconfined", {"SecurityOpt": ["seccomp:unconfined"]}),
    ("security-option", "log-driver=syslog", {"LogConfig": {"Type": "syslog"}}),
    ("security-option", "sysctl=kernel.domainname", {"Sysctls": {"kernel.domainname": "x"}}),
    ("bind-system", "/var/log", {"Binds": ["/var/log/app:/x"]}),
]


@pytest.mark.parametrize(("rule", "subject", "fields"), RELAXATIONS)
def test_a_host_rule_is_relaxed_by_name_and_no_further(
    rule: str, subject: str, fields: dict[str, Any]
) -> None:
    denial = create(**fields).denial
    assert denial is not None
    assert denial.rule == rule
    assert f"repositories: {{gpu-a: {{allow: {{{rule}: " in denial.fix
    assert create(relaxed={rule: frozenset({subject})}, **fields).allow
    assert not create(relaxed={rule: frozenset({"another"})}, **fields).allow
    assert not create(relaxed={rule: frozenset({subject})}, **fields, Privileged=True).allow


def test_nothing_relaxes_a_hardware_rule() -> None:
    everything = {rule.id: frozenset({"true", "/", "ALL", "--privileged"}) for rule in RULES}
    assert rule_of(create(relaxed=everything, Privileged=True)) == "privileged"
    assert rule_of(create(relaxed=everything, Binds=["/dev:/x"])) == "bind-hardware"
    assert rule_of(create(relaxed=everything, Binds=["/etc:/x"])) == "bind-control"


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"Name": "n"}, ""),
        (
            {
                "Name": "n",
                "Driver": "bridge",
                "Options": {"a": "b"},
                "IPAM": {"Driver": "default", "Config": []},
            },
            "",
        ),
        ({"Name": "n", "Driver": "macvlan"}, "host-network-driver"),
        ({"Name": "n", "Driver": "host"}, "host-network-driver"),
        ({"Name": "n", "Driver": "some-plugin"}, "host-network-driver"),
        ({"Name": "n", "IPAM": {"Driver": "some-plugin"}}, "host-network-driver"),
        ({"Name": "n", "Scope": "swarm"}, "host-network-driver"),
        ({"Name": "n", "ConfigFrom": {"Network": "x"}}, "host-network-driver"),
        ({"Name": "n", "ConfigOnly": True}, "host-network-driver"),
        ({"Name": "n", "Unheard": 1}, "unknown-field"),
    ],
)
def test_networks(body: dict[str, Any], rule: str) -> None:
    assert rule_of(ask_gate(post("/networks/create", json.dumps(body).encode()), context())) == rule


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("", ""),
        ("t=a%2Fb&dockerfile=Dockerfile&version=1&cgroupparent=", ""),
        ("cgroupparent=%2Fsystem.slice", "annotation"),
        ("t=x&cgroup%70arent=x", "annotation"),
        ("securityopt=%5B%5D", "annotation"),
        ("unheard=1", "unknown-field"),
        ("t=x;cgroupparent=y", "unreadable-request"),
        ("t=%zz%ff", "unreadable-request"),
    ],
)
def test_builds(query: str, rule: str) -> None:
    from plugin.decide import Request

    request = Request("POST", f"/v1.47/build?{query}" if query else "/v1.47/build", None)
    assert rule_of(ask_gate(request, context())) == rule
    assert rule_of(ask_gate(request, context(), Machine(build_problem="open"))) == "build-device"


def test_what_cannot_be_learnt_is_denied() -> None:
    decision = ask_gate(
        post("/containers/create", b'{"Image":"a","HostConfig":{"Binds":["/srv:/x"]}}'), context(), Mute()
    )
    assert not decision.allow
    assert decision.denial is not None
    assert "could not learn" in decision.denial.message


class Mute(Machine):
    """A machine that answers nothing."""

    def ask(self, queries: Any) -> Any:
        return {}


def test_too_many_of_anything_is_refused_before_it_is_judged() -> None:
    assert create(Binds=[f"/srv/{number}:/x{number}" for number in range(200)]).allow
    assert not create(Binds=[f"/srv/{number}:/x{number}" for number in range(300)]).allow
    assert rule_of(create(CapAdd=["CHOWN"] * 1001)) == "unreadable-request"


def test_the_messages_say_what_and_what_to_do() -> None:
    denial = create(DeviceRequests=[{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]).denial
    assert denial is not None
    assert denial.text == (
        "repository gpu-a has no grant for nvidia.com/gpu=all. An operator can give it:"
        " rdc repo gpu grant gpu-a --device nvidia.com/gpu=all"
    )
    denial = create(DeviceRequests=[{"Count": -1, "Capabilities": [["gpu"]]}]).denial
    assert denial is not None
    assert "--gpus" in denial.message
    assert "--device nvidia.com/gpu=0 (devices here: nvidia.com/gpu=0, nvidia.com/gpu=1" in denial.text
    denial = create(Devices=[{"PathOnHost": "nvidia.com/gpu=0"}]).denial
    assert denial is not None
    assert "too old" in denial.text

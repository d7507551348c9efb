"""What a container was made with counts when it starts, is renamed or copied from."""

from dataclasses import replace
from typing import Any

import pytest

from plugin.context import Container, Unanswered, Volume
from plugin.decide import Decision, Request
from tests.unit.plugin.machine import Machine, ask_gate, context

ID = "c0ffee" + "0" * 58
STARTS = ["start", "restart"]
OTHERS = ["rename", "archive"]
DEVICE = {"DeviceRequests": [{"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=0"]}]}


def request(what: str) -> Request:
    return Request("PUT" if what == "archive" else "POST", f"/v1.51/containers/web/{what}", None)


def ask(what: str, stored: Container, granted: str = "", **machine: Any) -> Decision:
    where = context(*filter(None, [granted]))
    return ask_gate(request(what), where, Machine(containers={"web": stored}, **machine))


def made(**host_config: Any) -> Container:
    return Container(ID, host_config)


@pytest.mark.parametrize("what", STARTS + OTHERS)
def test_an_ordinary_container(what: str) -> None:
    masked = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/scsi",
        "/sys/firmware",
    ]
    read_only = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
    stored = made(
        MaskedPaths=[*masked, "/proc/asound"],
        ReadonlyPaths=read_only,
        Runtime="runc",
        Binds=["/srv:/x"],
        New=[1],
    )
    assert ask(what, replace(stored, binds=(("/srv", False),), volumes=("data",))).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"Privileged": True}, "privileged"),
        ({"MaskedPaths": []}, "unmasked-paths"),
        ({"ReadonlyPaths": ["/proc/bus"]}, "unmasked-paths"),
        ({"Runtime": "nvidia"}, "runtime"),
        ({"Devices": [{"PathOnHost": "/dev/kvm"}]}, "raw-device"),
        ({"CapAdd": ["CAP_SYS_ADMIN"]}, "kernel-capability"),
        ({"DeviceRequests": [{"Driver": "nvidia", "Count": -1}]}, "device-request-form"),
    ],
)
def test_what_reaches_hardware(what: str, fields: dict[str, Any], rule: str) -> None:
    denial = ask(what, made(**fields)).denial
    assert denial is not None
    assert denial.rule == rule
    assert "make it anew" in denial.fix


@pytest.mark.parametrize("what", STARTS)
def test_a_start_needs_the_grant(what: str) -> None:
    denial = ask(what, made(**DEVICE)).denial
    assert denial is not None
    assert denial.rule == "device-not-granted"
    assert ask(what, made(**DEVICE), "nvidia.com/gpu=0") == Decision(True, devices=("nvidia.com/gpu=0",))


@pytest.mark.parametrize("what", OTHERS)
def test_renames_and_copies_do_not(what: str) -> None:
    assert ask(what, made(**DEVICE)).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
def test_host_rules_are_for_what_is_made_anew(what: str) -> None:
    assert ask(what, made(IpcMode="host", CapAdd=["CAP_NET_ADMIN"], SecurityOpt=["label=disable"])).allow
    named_openly = replace(made(Binds=["/root:/x"]), binds=(("/root", False),))
    assert ask(what, named_openly).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
@pytest.mark.parametrize("target", ["/dev", "/etc/cdi", "/root", "/usr/local/bin"])
def test_a_link_that_was_turned_counts_wherever_it_leads(what: str, target: str) -> None:
    stored = replace(made(Binds=["/srv/app/x:/x"]), binds=(("/srv/app/x", False),))
    assert ask(what, stored).allow
    assert not ask(what, stored, links={"/srv/app/x": target}).allow
    assert not ask(what, replace(stored, host_config={}), links={"/srv/app": target}).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
def test_everyday_files_stay_read_only(what: str) -> None:
    links = {"/etc/localtime": "/usr/share/zoneinfo/UTC"}
    stored = replace(made(Binds=["/etc/localtime:/etc/localtime:ro"]), binds=(("/etc/localtime", True),))
    assert ask(what, stored, links=links).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
def test_volumes_count(what: str) -> None:
    stored = replace(made(), volumes=("v",))
    bound = Volume("local", {"type": "none", "o": "bind", "device": "/srv/v"})
    assert ask(what, stored, volumes={"v": bound}).allow
    assert not ask(what, stored, volumes={"v": bound}, links={"/srv/v": "/root"}).allow
    assert not ask(what, stored, volumes={"v": Volume("local", {"type": "devtmpfs", "device": "x"})}).allow
    assert not ask(what, stored, volumes={"v": Volume("sshfs", {})}).allow


@pytest.mark.parametrize("what", STARTS + OTHERS)
def test_what_the_daemon_does_not_tell_is_denied(what: str) -> None:
    class Mute(Machine):
        def _answer(self, query: Any) -> Any:
            return Unanswered("no")

    assert not ask_gate(request(what), context(), Mute()).allow
    assert not ask(what, made(Binds="/srv:/x")).allow
    assert not ask(what, made(Devices=[None])).allow
    assert not ask(what, replace(made(), others=("c0ff" + "1" * 60,))).allow


def test_nobody_starts_by_an_odd_name() -> None:
    for name in ("a/b", "%77eb", "web;x", "..", ""):
        assert not ask_gate(Request("POST", f"/containers/{name}/start", None), context()).allow


@pytest.mark.parametrize(
    ("target", "body", "allowed"),
    [
        ("/containers/web/start", None, True),
        ("/containers/web/start", b"{}", True),
        ("/containers/web/start", b'{"Binds":["/:/x"]}', False),
        ("/containers/web/start?checkpoint=x", None, False),
        ("/containers/web/start?check%70oint=x", None, False),
        ("/containers/web/start?checkpoint-dir=/x", None, False),
        ("/containers/web/start?detachKeys=ctrl-p", None, True),
        ("/v1.23/containers/web/start", None, False),
        ("/v1.24/containers/web/start", None, True),
    ],
)
def test_starts_themselves(target: str, body: bytes | None, allowed: bool) -> None:
    machine = Machine(containers={"web": made()})
    assert ask_gate(Request("POST", target, body), context(), machine).allow == allowed

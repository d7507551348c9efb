"""``renet gpu list|grants|who|check|restore``: every question that an operator has about grants."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from grants_cli.commands import show
from grants_cli.containers import Answer, Container
from grants_cli.devices import Devices
from grants_cli.documents import Kind, encode
from grants_cli.grants import Grant
from grants_cli.overview import Facts, holdings
from grants_cli.store import GrantStore
from machine_setup.renet import renet as command
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, register
from tests.unit.grants_cli.specs import CONTROL, NVIDIA, write_spec
from tests.unit.grants_cli.test_commands import CHECKOUT, data, error, renet
from tests.unit.grants_cli.test_overlap import DRI, two_cards

GPU = "nvidia.com/gpu"
FUTURE = NOW.replace(year=2099)


@pytest.fixture
def machine(layout: Layout) -> Layout:
    two_cards(layout.root)
    write_spec(layout, GPU, NVIDIA, CONTROL)
    write_spec(layout, "rediacc.io/dri", DRI)
    one, other = register(layout, "gpu-a"), register(layout, "gpu-b:test")
    records = {
        one.guid: [
            Grant(f"{GPU}=0", True, NOW, "alice", FUTURE, ("0000:02:00.0",)),
            Grant(f"{GPU}=1", False, NOW, "alice", NOW.replace(hour=18)),
        ],
        other.guid: [
            Grant("gone.com/gpu=9", False, NOW, "bob"),
            Grant(f"{GPU}=GPU-bbbbbbbb-1111", False, NOW, "bob", cards=("0000:09:00.0",)),
        ],
    }
    document: dict[str, object] = {
        "version": 1,
        "grants": {guid: [grant.to_record() for grant in own] for guid, own in records.items()},
    }
    layout.grants.write_bytes(encode(document, Kind.GRANTS))
    layout.grants.chmod(0o600)
    return layout


def lines(text: str) -> list[list[str]]:
    """The cells of a table."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_the_list_shows_every_name_and_who_has_it(machine: Layout) -> None:
    shown = renet(machine, "gpu", "list")
    assert shown.returncode == 0
    rows = lines(shown.stdout)
    assert ["DEVICE", "REPOSITORY", "GRANT", "SINCE", "RUNNING"] in rows
    since = "2026-01-31 by"
    assert [f"{GPU}=0", "gpu-a", "exclusive until 2099-01-31T10:00:00Z", f"{since} alice", "-"] in rows
    assert [f"{GPU}=1", "gpu-a", "expired 2026-01-31T18:00:00Z", f"{since} alice", "-"] in rows
    assert ["gone.com/gpu=9 (gone)", "gpu-b:test", "shared", f"{since} bob", "-"] in rows
    assert [f"{GPU}=GPU-bbbbbbbb-1111 (other card)", "gpu-b:test", "shared", f"{since} bob", "-"] in rows
    assert [f"{GPU}=all", "-", "-", "-", "-"] in rows
    assert "no spec on this machine defines gone.com/gpu=9 any more, which gpu-b:test holds" in shown.stderr
    assert "is another card now: 0000:01:00.0; it was granted as 0000:09:00.0" in shown.stderr


def test_the_list_as_json_is_the_inventory_byte_for_byte(machine: Layout) -> None:
    assert error(renet(machine, "gpu", "list", "-o", "json"), 5)["code"] == "not-found"
    text = (
        '{"version":1,\n "generatedAt":"2026-01-31T10:00:00Z","hostname":"h","platform":"wsl","gpus":[],'
        '"devices":[],"toolkit":{"installed":false,"version":null},"warnings":["w"]}\n'
    )
    machine.inventory.write_text(text)
    machine.inventory.chmod(0o644)
    assert renet(machine, "gpu", "list", "-o", "json").stdout == text
    shown = renet(machine, "gpu", "list")
    assert shown.stdout.startswith("h (wsl), inventory recorded ")
    assert "warning: w" in shown.stderr


def test_grants_are_told_of_one_repository_or_all(machine: Layout) -> None:
    one = json.loads(renet(machine, "gpu", "grants", "gpu-a", "-o", "json").stdout)["data"]
    assert [(grant["device"], grant["repository"], grant["live"]) for grant in one] == [
        (f"{GPU}=0", "gpu-a", True)
    ]
    assert (one[0]["exclusive"], one[0]["expiresAt"], one[0]["grantedBy"]) == (
        True,
        "2099-01-31T10:00:00Z",
        "alice",
    )
    every = json.loads(renet(machine, "gpu", "grants", "--all", "-o", "json").stdout)["data"]
    assert {(grant["device"], grant["live"], grant["gone"]) for grant in every} == {
        (f"{GPU}=0", True, False),
        (f"{GPU}=1", False, False),
        ("gone.com/gpu=9", True, True),
        (f"{GPU}=GPU-bbbbbbbb-1111", True, False),
    }
    assert error(renet(machine, "gpu", "grants", "gpu-c", "-o", "json"), 5)["code"] == "not-found"


def test_who_counts_every_name_of_the_gpu(machine: Layout) -> None:
    answer = data(renet(machine, "gpu", "who", "rediacc.io/dri=renderD129", "-o", "json"))
    holders = answer["holders"]
    assert isinstance(holders, list)
    assert [(each["repository"], each["device"], each["sharedNode"]) for each in holders] == [
        ("gpu-a", f"{GPU}=0", "/dev/dri/renderD129")
    ]
    assert data(renet(machine, "gpu", "who", "gone.com/gpu=9", "-o", "json"))["device"] == "gone.com/gpu=9"
    assert renet(machine, "gpu", "who", "rediacc.io/dri=renderD130").stdout == (
        "nobody may use rediacc.io/dri=renderD130\n"
    )
    problem = error(renet(machine, "gpu", "who", f"{GPU}=al", "-o", "json"), 5)
    assert f"{GPU}=all" in problem["hint"]


def test_a_table_fits_a_narrow_terminal(machine: Layout) -> None:

    master, slave = pty.openpty()
    words = [sys.executable, "-m", "machine_setup.renet", "--root", str(machine.root), "gpu", "list"]
    with subprocess.Popen(
        words,
        stdout=slave,
        stderr=subprocess.DEVNULL,
        cwd=CHECKOUT,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                output += os.read(master, 65536)
            except OSError:
                break
        assert process.wait() == 0
    os.close(master)
    shown = click.unstyle(output.decode()).splitlines()
    assert len(shown) > 8
    assert max(map(len, shown)) <= 80


def test_containers_that_hold_a_device_are_named(machine: Layout) -> None:
    store = GrantStore(machine)
    repositories = store.read_register()
    one, other = repositories.get("gpu-a"), repositories.get("gpu-b:test")
    answers = {
        one.guid: Answer(
            (
                Container("1", "web", "running", frozenset({f"{GPU}=0", f"{GPU}=1"}), "no"),
                Container("2", "old", "exited", frozenset({f"{GPU}=0"}), "no"),
                Container("3", "job", "paused", frozenset({f"{GPU}=all"}), "no"),
            )
        ),
        other.guid: Answer(problem="it does not answer"),
    }
    found = holdings(Facts(store.read(), repositories, answers, Devices(machine), FUTURE.replace(year=2030)))
    rows = [show.row(holding) for holding in found]
    assert [(cells[0], cells[1], cells[4]) for cells in rows] == [
        ("gone.com/gpu=9 (gone)", "gpu-b:test", "?"),
        (f"{GPU}=0", "gpu-a", "web"),
        (f"{GPU}=1", "gpu-a", "web"),
        (f"{GPU}=GPU-bbbbbbbb-1111 (other card)", "gpu-b:test", "?"),
        (f"{GPU}=all", "gpu-a", "job"),
    ]
    assert rows[-1][2:4] == ("none", "-")
    said = list(show.warnings(found))
    assert f"web of gpu-a still runs with {GPU}=1, without a live grant" in said
    assert f"job of gpu-a still runs with {GPU}=all, without a live grant" in said
    assert "which containers run in gpu-b:test is not known: it does not answer" in said


def test_check_is_content_with_what_it_can_trust(machine: Layout) -> None:
    answer = data(renet(machine, "gpu", "check", "-o", "json"))
    said = answer["warnings"]
    assert isinstance(said, list)
    assert any("gone.com/gpu=9" in line for line in said)
    assert any("another card" in line for line in said)


def test_check_finds_what_nobody_would_have_granted(machine: Layout) -> None:
    document = json.loads(machine.grants.read_text())
    stranger = "99999999-2222-3333-4444-555555555555"
    (first, *_) = document["grants"]
    document["grants"][stranger] = [
        {**document["grants"][first][0], "device": f"{GPU}=all", "exclusive": False}
    ]
    machine.grants.write_text(json.dumps(document))
    said = renet(machine, "gpu", "check").stderr
    assert (
        f"gpu-a holds {GPU}=0 exclusively and {stranger} {GPU}=all, which is the same GPU (/dev/nvidia0)"
        in said
    )
    assert f"renet gpu revoke {stranger} --all" in said
    assert data(renet(machine, "gpu", "revoke", stranger, "--all", "-o", "json"))["revoked"] == [f"{GPU}=all"]
    assert stranger not in json.loads(machine.grants.read_text())["grants"]


def test_check_and_restore_of_a_damaged_file(machine: Layout) -> None:
    data(renet(machine, "gpu", "grant", "gpu-a", "--device", f"{GPU}=1", "-o", "json"))
    whole = machine.grants.read_bytes()
    machine.grants.write_bytes(whole[:-20])
    checked = renet(machine, "gpu", "check")
    assert checked.returncode == 12
    assert "cannot be trusted: it is no JSON that we can read" in checked.stdout + checked.stderr
    problem = error(renet(machine, "gpu", "check", "-o", "json"), 12)
    assert "renet gpu restore" in problem["hint"]
    would = renet(machine, "gpu", "restore", "--dry-run")
    assert would.stdout.startswith(f"would bring back {machine.grants} as it was written at 20")
    assert machine.grants.read_bytes() == whole[:-20]
    restored = data(renet(machine, "gpu", "restore", "-o", "json"))["restored"]
    assert isinstance(restored, list)
    assert Path(restored[0]["setAside"]).read_bytes() == whole[:-20]
    assert machine.grants.read_bytes() == whole
    assert renet(machine, "gpu", "check").returncode == 0
    assert renet(machine, "gpu", "restore").stdout == "nothing to restore: the files can be trusted\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gpu", "grant", "gp"], ["gpu-a", "gpu-b:test"]),
        (["gpu", "grant", "gpu-a", "--device", "rediacc.io/dri=renderD13"], ["rediacc.io/dri=renderD130"]),
        (["gpu", "revoke", "gpu-a", "--device", ""], [f"{GPU}=0", f"{GPU}=1"]),
        (["gpu", "who", f"{GPU}=a"], [f"{GPU}=all"]),
        (["gpu", "grants", "gpu-b"], ["gpu-b:test"]),
    ],
)
def test_a_shell_completes_repositories_and_devices(
    machine: Layout, words: list[str], expected: list[str]
) -> None:
    completion = ShellComplete(command, {}, "renet", "_RENET_COMPLETE")
    found = completion.get_completions(["--root", str(machine.root), *words[:-1]], words[-1])
    assert [item.value for item in found] == expected


def test_a_machine_whose_files_are_damaged_completes_nothing(machine: Layout) -> None:
    machine.register.write_bytes(b"{")
    completion = ShellComplete(command, {}, "renet", "_RENET_COMPLETE")
    root = ["--root", str(machine.root)]
    assert completion.get_completions([*root, "gpu", "grant"], "gp") == []
    assert completion.get_completions([*root, "gpu", "revoke", "gpu-a", "--device"], "") == []

"""After a change of devices set-up names the grants whose device is gone or has become another card."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from grants_cli.grants import Grant
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from grants_cli.times import from_text
from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.trees import MachineTree, amd_machine, intel_machine

MakeBox = Callable[..., Box]
GUID = "5b0f0f0e-7c5e-4a7c-9d51-0a1b2c3d4e5f"
LONG_AGO = from_text("2026-01-31T10:00:00Z")


def grant(box: Box, device: str, *cards: str, expires: str | None = None) -> None:
    """Give `device` to the repository gpu-a, as what it was then."""
    with GrantStore(box.layout).transaction() as transaction:
        repository = Repository(
            GUID,
            Ref("gpu-a"),
            box.tree.root / "run/gpu-a.sock",
            box.tree.root / "srv/gpu-a",
            box.tree.root / "etc/gpu-a.json",
            managed=False,
            created_at=LONG_AGO,
        )
        record = Grant(device, False, LONG_AGO, "root", from_text(expires) if expires else None, cards)
        box.tree.write(
            "etc/rediacc/repositories.json",
            json.dumps({"version": 1, "repositories": {GUID: repository.to_record()}}),
        )
        box.tree.write(
            "etc/rediacc/gpu/grants.json",
            json.dumps({"version": 1, "grants": {GUID: [record.to_record()]}}),
        )
        del transaction
    for name in ("etc/rediacc/repositories.json", "etc/rediacc/gpu/grants.json"):
        (box.tree.root / name).chmod(0o600)


def said(box: Box) -> list[str]:
    """What set-up says of gpu-a."""
    return [step for step in box.answer()["next"] if step.startswith("gpu-a ")]


def test_a_grant_whose_device_is_here_is_not_mentioned(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    grant(machine, "rediacc.io/dri=renderD128", "0000:03:00.0")
    assert said(machine) == []


def test_a_grant_whose_device_is_gone(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.setup()
    grant(machine, "rediacc.io/dri=renderD128", "0000:03:00.0")
    shutil.rmtree(machine.tree.root / "sys/class/drm")
    (message,) = said(machine)
    assert "rediacc.io/dri=renderD128, which this machine no longer has" in message
    assert "renet gpu revoke gpu-a --device rediacc.io/dri=renderD128" in message
    # The grant itself is the operator's business.
    assert "renderD128" in machine.layout.grants.read_text()


def test_a_grant_whose_name_has_become_another_card(box: MakeBox) -> None:
    machine = box(amd_machine, "systemctl")
    grant(machine, "rediacc.io/dri=renderD128", "0000:c4:00.0")
    (message,) = said(machine)
    assert "the card at 0000:c4:00.0" in message
    assert "has become 0000:03:00.0" in message
    # And so every time, until somebody does something about it.
    assert said(machine) == [message]


def test_a_grant_of_all_cards_when_one_is_taken_out(box: MakeBox) -> None:
    machine = box(amd_machine, "systemctl")
    grant(machine, "rediacc.io/amd=all", "0000:03:00.0", "0000:44:00.0", "0000:c4:00.0")
    (message,) = said(machine)
    assert "0000:44:00.0" in message


def test_an_expired_grant_is_not_mentioned(box: MakeBox) -> None:
    machine = box(bare, "systemctl")
    grant(machine, "rediacc.io/dri=renderD128", "0000:03:00.0", expires="2026-02-01T10:00:00Z")
    assert said(machine) == []


def test_grants_that_cannot_be_read_are_an_error_and_stay(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.tree.write("etc/rediacc/gpu/grants.json", "{")
    assert "grants.json" in machine.error(status=12)["message"]
    assert machine.layout.grants.read_text() == "{"
    assert machine.layout.inventory.exists()


def bare(root: Path) -> MachineTree:
    return MachineTree(root).bare()

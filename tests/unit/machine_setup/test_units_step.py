"""Units of an older version are brought up to date; where there are none, none are made."""

from collections.abc import Callable

from machine_setup.repository import units
from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.trees import intel_machine

MakeBox = Callable[..., Box]


def test_units_of_an_older_version_are_replaced_and_the_gate_restarted(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    (machine.layout.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    gate = machine.layout.unit_dir / units.GATE
    gate.parent.mkdir(parents=True, exist_ok=True)
    gate.write_text("[Service]\nExecStart=/opt/rediacc/0.0.9/bin/renet gate serve\n")
    machine.setup("--install-nvidia-toolkit", "false")
    for path, content in units.wanted_files(machine.layout):
        assert path.read_bytes() == content
    again = machine.answer("--install-nvidia-toolkit", "false")
    assert again["changed"] is False


def test_a_machine_without_repositories_gets_no_units(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.setup("--install-nvidia-toolkit", "false")
    assert not (machine.layout.unit_dir / units.GATE).exists()

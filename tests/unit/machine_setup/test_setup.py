"""``renet setup`` on whole machines: what it publishes and records, what it leaves alone, what it says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from machine_setup.doctor.facts import MachineFacts
from machine_setup.doctor.finding import Finding, Status
from machine_setup.doctor.spec_checks import driver_current
from spec.layout import Layout
from spec.registry import read
from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.stand_ins import SPEC, SPEC_WSL, StandIns
from tests.unit.machine_setup.trees import (
    PROPRIETARY,
    UUID_0,
    UUID_1,
    MachineTree,
    amd_machine,
    intel_machine,
    nvidia_machine,
    partitioned_machine,
    passthrough_machine,
    wsl_machine,
)

MakeBox = Callable[..., Box]
WITH_TOOLKIT = ("nvidia-smi", "nvidia-ctk", "systemctl")
REFRESH_SERVICE = "usr/lib/systemd/system/nvidia-cdi-refresh.service"
REFRESH_FILE = "etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"


def bare_machine(root: Path) -> MachineTree:
    return MachineTree(root).bare()


def equipped(box: MakeBox, *more: str) -> Box:
    """An NVIDIA machine with its toolkit, as NVIDIA's packages leave it."""
    made = box(nvidia_machine, *WITH_TOOLKIT, *more)
    made.tree.write(REFRESH_SERVICE, "")
    return made


def names(layout: Layout) -> tuple[str, ...]:
    return read([layout.cdi_dir]).names()


@pytest.mark.parametrize(
    ("build", "gpus", "published"),
    [
        (bare_machine, [], ()),
        (intel_machine, ["intel"], ("rediacc.io/dri=renderD128",)),
        (
            amd_machine,
            ["amd", "amd", "amd"],
            (
                "rediacc.io/amd=all",
                "rediacc.io/amd=gpu0",
                "rediacc.io/amd=gpu1",
                "rediacc.io/dri=renderD128",
                "rediacc.io/dri=renderD129",
                "rediacc.io/dri=renderD130",
            ),
        ),
        (
            partitioned_machine,
            ["amd"],
            (
                "rediacc.io/amd=all",
                "rediacc.io/amd=gpu0",
                "rediacc.io/dri=renderD128",
                "rediacc.io/dri=renderD129",
            ),
        ),
    ],
)
def test_what_a_machine_has_is_published_and_recorded(
    box: MakeBox, build: Callable[[Path], MachineTree], gpus: list[str], published: tuple[str, ...]
) -> None:
    machine = box(build, "systemctl")
    machine.setup()
    inventory = machine.inventory()
    assert [gpu["vendor"] for gpu in inventory["gpus"]] == gpus
    assert names(machine.layout) == published
    assert [device["name"] for device in inventory["devices"]] == list(published)
    assert inventory["toolkit"] == {"installed": False, "version": None}
    assert not (machine.tree.root / "etc/apt/sources.list.d").exists()


def test_a_machine_without_gpus_gets_an_inventory_of_empty_lists(box: MakeBox) -> None:
    machine = box(bare_machine, "systemctl")
    assert "This machine has no GPU." in machine.setup().stdout
    inventory = machine.inventory()
    assert (inventory["gpus"], inventory["devices"], inventory["warnings"]) == ([], [], [])
    assert list(machine.layout.cdi_dir.glob("*")) == []


def test_nvidias_devices_are_published_by_its_own_generator(box: MakeBox) -> None:
    machine = equipped(box)
    shown = machine.setup().stdout
    assert names(machine.layout) == (
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=1",
        f"nvidia.com/gpu={UUID_0}",
        f"nvidia.com/gpu={UUID_1}",
        "nvidia.com/gpu=all",
        "rediacc.io/dri=renderD128",
    )
    inventory = machine.inventory()
    assert inventory["toolkit"] == {"installed": True, "version": "1.18.0"}
    assert [gpu["devices"] for gpu in inventory["gpus"]] == [
        ["nvidia.com/gpu=0", f"nvidia.com/gpu={UUID_0}", "nvidia.com/gpu=all", "rediacc.io/dri=renderD128"],
        ["nvidia.com/gpu=1", f"nvidia.com/gpu={UUID_1}", "nvidia.com/gpu=all"],
    ]
    assert inventory["gpus"][1]["memoryMiB"] == 40960
    assert "renet gpu grant REPO --device nvidia.com/gpu=0" in shown


def test_on_wsl_the_generator_is_told_so(box: MakeBox) -> None:
    machine = box(wsl_machine, "nvidia-ctk", "systemctl")
    source = machine.stand_ins.directory / "nvidia-smi"
    machine.tree.program("usr/lib/wsl/lib/nvidia-smi", source.read_text())
    machine.stand_ins.write("smi.csv", f"0, {UUID_0}, NVIDIA RTX 4090, 24564, 560.94, 00000000:01:00.0\n")
    machine.setup()
    (generate,) = [call for call in machine.stand_ins.calls("nvidia-ctk") if "generate" in call]
    assert "--mode=wsl" in generate
    assert machine.layout.nvidia_spec.read_text().endswith(SPEC_WSL)
    (gpu,) = machine.inventory()["gpus"]
    assert (machine.inventory()["platform"], gpu["devices"]) == ("wsl", ["nvidia.com/gpu=all"])


def test_a_virtual_machine_with_a_passed_through_card(box: MakeBox) -> None:
    machine = box(passthrough_machine, *WITH_TOOLKIT)
    machine.stand_ins.write(
        "smi.csv", f"0, {UUID_0}, NVIDIA A100-SXM4-40GB, 40960, 555.42.06, 00000000:00:05.0\n"
    )
    machine.setup()
    virtio, nvidia = machine.inventory()["gpus"]
    assert "rediacc.io/dri=renderD128" in virtio["devices"]
    assert (nvidia["pciAddress"], nvidia["memoryMiB"]) == ("0000:00:05.0", 40960)
    assert "nvidia.com/gpu=0" in nvidia["devices"]


@pytest.mark.parametrize("build", [bare_machine, amd_machine, intel_machine, nvidia_machine])
def test_the_second_set_up_changes_nothing(box: MakeBox, build: Callable[[Path], MachineTree]) -> None:
    machine = box(build, *WITH_TOOLKIT)
    first = machine.answer()
    assert first["changed"] is True
    state = machine.state()
    stamps = {path: path.stat().st_mtime_ns for path in machine.layout.cdi_dir.glob("*")}
    machine.stand_ins.forget()
    second = machine.answer()
    assert second["changed"] is False
    assert [step["changes"] for step in second["steps"] if step["changes"]] == []
    assert second["inventory"] == first["inventory"]
    assert machine.state() == state
    assert {path: path.stat().st_mtime_ns for path in machine.layout.cdi_dir.glob("*")} == stamps
    assert not [
        call for call in machine.stand_ins.calls("systemctl") if call[1] in {"enable", "daemon-reload"}
    ]


def test_what_the_refresh_service_wrote_is_no_difference(box: MakeBox) -> None:
    machine = equipped(box)
    machine.setup()
    machine.layout.nvidia_spec.write_text(SPEC)  # without set-up's mark
    assert machine.answer()["changed"] is False


def test_a_new_driver_gets_a_new_spec(box: MakeBox) -> None:
    machine = equipped(box)
    machine.setup()
    machine.tree.nvidia_driver(PROPRIETARY.replace("535.129.03", "550.54.15"))
    machine.stand_ins.write("spec.yaml", SPEC.replace("535.129.03", "550.54.15"))
    (found,) = doctors_view_of_the_driver(machine)
    assert (found.status, found.fix) == (Status.FAILURE, "renet setup")
    machine.setup()
    assert "libcuda.so.550.54.15" in machine.layout.nvidia_spec.read_text()
    (found,) = doctors_view_of_the_driver(machine)
    assert found.status is Status.OK


def doctors_view_of_the_driver(machine: Box) -> tuple[Finding, ...]:
    return tuple(driver_current(MachineFacts(machine.layout, read([machine.layout.cdi_dir]))))


def test_a_card_that_is_gone_takes_its_devices_with_it(box: MakeBox) -> None:
    machine = box(amd_machine, "systemctl")
    machine.setup()
    for name in ("sys/class/kfd", "sys/class/drm", "sys/bus/pci/devices"):
        shutil.rmtree(machine.tree.root / name)
    machine.setup()
    assert names(machine.layout) == ()
    assert list(machine.layout.cdi_dir.glob("*")) == []
    assert machine.inventory()["gpus"] == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("nvml", "ERROR_LIB_RM_VERSION_MISMATCH"),
        ("invalid", "no valid spec"),
        ("nothing", "no valid spec"),
    ],
)
def test_a_failing_generator_keeps_the_old_spec_and_says_so(box: MakeBox, failure: str, said: str) -> None:
    machine = equipped(box)
    machine.setup()
    old = machine.layout.nvidia_spec.read_bytes()
    machine.stand_ins.fail("nvidia-ctk", failure)
    machine.layout.inventory.unlink()
    error = machine.error()
    assert said in error["message"]
    assert "nvidia.yaml stays" in error["message"]
    assert machine.layout.nvidia_spec.read_bytes() == old
    # The rest is done all the same.
    assert any(said in warning for warning in machine.inventory()["warnings"])


def test_a_generator_that_hangs_is_ended(box: MakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("machine_setup.setup.nvidia_spec._TIMEOUT_SECONDS", 0.5)
    machine = equipped(box)
    machine.stand_ins.fail("nvidia-ctk", "hang")
    assert "did not end within" in machine.error()["message"]
    assert machine.layout.inventory.exists()


def test_the_operators_choice_of_mode_reaches_the_generator_and_a_wrong_one_is_reported(box: MakeBox) -> None:
    machine = equipped(box)
    machine.tree.write(REFRESH_FILE, "NVIDIA_CTK_CDI_GENERATE_MODE=quantum\n")
    assert "invalid discovery mode: quantum" in machine.error()["message"]


def test_a_set_up_without_a_working_driver_keeps_the_spec_and_says_what_to_do(box: MakeBox) -> None:
    machine = equipped(box)
    machine.setup()
    machine.stand_ins.fail("nvidia-smi", "no-driver")
    machine.stand_ins.fail("nvidia-ctk", "nvml")
    done = machine.setup(status=14)
    assert "install the driver for the running kernel" in done.stdout
    assert machine.layout.nvidia_spec.exists()


def test_false_withdraws_what_set_up_wrote(box: MakeBox) -> None:
    machine = equipped(box)
    machine.tree.write(REFRESH_FILE, "# A comment of NVIDIA's\nNVIDIA_CTK_CDI_GENERATE_MODE=nvml\n")
    machine.setup()
    machine.setup("--install-nvidia-toolkit", "false")
    assert not machine.layout.nvidia_spec.exists()
    assert (machine.tree.root / REFRESH_FILE).read_text() == (
        "# A comment of NVIDIA's\nNVIDIA_CTK_CDI_GENERATE_MODE=nvml\n"
    )
    assert names(machine.layout) == ("rediacc.io/dri=renderD128",)
    assert machine.answer("--install-nvidia-toolkit", "false")["changed"] is False


def test_false_withdraws_what_the_service_wrote_for_set_up(box: MakeBox) -> None:
    machine = equipped(box)
    machine.setup()
    machine.layout.nvidia_spec.write_text(SPEC)
    machine.setup("--install-nvidia-toolkit", "false")
    assert not machine.layout.nvidia_spec.exists()


def test_false_leaves_the_operators_own_spec_and_reports_it(box: MakeBox) -> None:
    machine = equipped(box)
    machine.layout.cdi_dir.mkdir(parents=True)
    machine.layout.nvidia_spec.write_text(SPEC)
    machine.setup("--install-nvidia-toolkit", "false")
    assert machine.layout.nvidia_spec.read_text() == SPEC
    assert any("not written by set-up" in warning for warning in machine.inventory()["warnings"])


def test_false_asks_the_toolkit_for_nothing(box: MakeBox) -> None:
    machine = equipped(box, "apt-get")
    machine.setup("--install-nvidia-toolkit", "false")
    assert machine.stand_ins.calls("apt-get") == []
    assert [call for call in machine.stand_ins.calls("nvidia-ctk") if call[1:] != ["--version"]] == []


def test_refresh_is_redirected_and_its_other_settings_are_kept(box: MakeBox) -> None:
    machine = equipped(box)
    machine.tree.write(
        REFRESH_FILE,
        "# NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml\n"
        "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES=uuid\n"
        "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/srv/nvidia.yaml\n",
    )
    machine.tree.write("var/run/cdi/nvidia.yaml", SPEC)
    machine.setup()
    assert (machine.tree.root / REFRESH_FILE).read_text() == (
        "# NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml\n"
        "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES=uuid\n"
        "# By renet setup: repositories' daemons read /etc/cdi only.\n"
        "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.yaml\n"
    )
    assert not (machine.tree.root / "var/run/cdi/nvidia.yaml").exists()


def test_a_redirection_of_the_operators_own_is_left_as_it_is(box: MakeBox) -> None:
    machine = equipped(box)
    file = machine.tree.write(REFRESH_FILE, 'NVIDIA_CTK_CDI_OUTPUT_FILE_PATH="/etc/cdi/nvidia.yaml"\n')
    machine.setup()
    assert file.read_text() == 'NVIDIA_CTK_CDI_OUTPUT_FILE_PATH="/etc/cdi/nvidia.yaml"\n'


def test_the_shadowing_spec_stays_while_it_is_the_only_one(box: MakeBox) -> None:
    machine = equipped(box)
    shadow = machine.tree.write("var/run/cdi/nvidia.yaml", SPEC)
    machine.stand_ins.fail("nvidia-ctk", "nvml")
    machine.setup(status=14)
    assert shadow.exists()
    machine.stand_ins.fail("nvidia-ctk", "")
    machine.setup()
    assert not shadow.exists()


def test_a_toolkit_without_the_refresh_service_is_reported(box: MakeBox) -> None:
    machine = box(nvidia_machine, *WITH_TOOLKIT)
    machine.stand_ins.write("ctk.version", "1.17.8")
    machine.setup()
    assert not (machine.tree.root / REFRESH_FILE).exists()
    assert any("after each driver upgrade" in warning for warning in machine.inventory()["warnings"])


def test_the_udev_rule_and_its_service_are_installed_and_enabled(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.setup()
    rule = (machine.tree.root / "etc/udev/rules.d/70-rediacc-cdi.rules").read_text()
    assert 'KERNEL=="renderD*"' in rule
    assert "rediacc-cdi-refresh.service" in rule
    unit = (machine.tree.root / "etc/systemd/system/rediacc-cdi-refresh.service").read_text()
    (start,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert start.startswith("ExecStart=/")
    assert start.endswith("cdi generate")
    assert [call[1:] for call in machine.stand_ins.calls("systemctl")] == [
        ["daemon-reload"],
        ["enable", "rediacc-cdi-refresh.service"],
    ]


def test_without_systemd_the_operator_is_told(box: MakeBox) -> None:
    machine = box(intel_machine)
    (machine.tree.root / "run/systemd/system").rmdir()
    machine.setup()
    assert any("renet cdi generate" in warning for warning in machine.inventory()["warnings"])
    assert not (machine.tree.root / "etc/udev").exists()


def test_a_damaged_inventory_is_not_overwritten(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.tree.write("etc/rediacc/gpu/inventory.json", '{"version": 2}')
    error = machine.error(status=12)
    assert "version is 2" in error["message"]
    assert machine.layout.inventory.read_text() == '{"version": 2}'
    # The devices are published all the same.
    assert names(machine.layout) == ("rediacc.io/dri=renderD128",)


def test_a_broken_spec_of_somebody_elses_is_reported_and_left(box: MakeBox) -> None:
    machine = box(intel_machine, "systemctl")
    machine.tree.write("etc/cdi/other.yaml", "cdiVersion: 0.5.0\nkind: x.y/z\ndevices: []\n")
    machine.setup()
    assert any("other.yaml" in warning for warning in machine.inventory()["warnings"])
    assert (machine.layout.cdi_dir / "other.yaml").exists()


def test_progress_goes_to_stderr_and_the_table_to_stdout(box: MakeBox) -> None:
    done = equipped(box).setup()
    assert "[2/12] GPUs …" in done.stderr
    assert "2 nvidia (native) (" in done.stderr
    assert " s)" in done.stderr
    assert done.stdout.splitlines()[0].split() == [
        "GPU",
        "NAME",
        "PCI",
        "MEMORY",
        "DRIVER",
        "CAN",
        "BE",
        "GRANTED",
        "AS",
    ]
    assert "NVIDIA A100-SXM4-40GB" in done.stdout


def test_below_another_root_no_program_of_this_machine_is_run(tmp_path: Path) -> None:
    tree = nvidia_machine(tmp_path / "machine")
    machine = Box(tree, StandIns.of(tmp_path / "programs", tree.root))
    done = machine.setup(REDIACC_PROGRAMS="")
    assert "programs are not run below another root" in done.stderr
    assert names(machine.layout) == ("rediacc.io/dri=renderD128",)


def test_only_one_set_up_runs_at_a_time(box: MakeBox) -> None:
    import fcntl

    machine = box(intel_machine, "systemctl")
    machine.setup()
    with machine.layout.setup_lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        error = machine.error(status=15)
        assert "another command is setting up this machine" in error["message"]
        machine.setup("--dry-run")
    machine.setup()


def test_help_shows_examples(box: MakeBox) -> None:
    shown = box(bare_machine).setup("--help").stdout
    assert "renet setup --dry-run" in shown
    assert "auto|true|false" in shown


def test_json_is_one_object_on_stdout(box: MakeBox) -> None:
    done = box(bare_machine).process("-o", "json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert set(answer["data"]) == {"dryRun", "changed", "steps", "inventory", "next"}

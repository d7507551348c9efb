"""``renet cdi``: what exists, what it injects, what is wrong with a file and where."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spec.schema import schema_text
from tests import trees

REPOSITORY = Path(__file__).parents[3]
NVIDIA = """\
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
  - name: "0"
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  - name: all
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  hooks: [{hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, chmod]}]
  mounts: [{hostPath: /usr/lib/libcuda.so, containerPath: /usr/lib/libcuda.so, options: [ro, rbind]}]
"""
BROKEN = """\
cdiVersion: "0.5.0"
kind: acme.example/gpu
devices:
  - name: a0
    containerEdits: {env: [FAST]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    trees.amd_card(tmp_path)
    (tmp_path / "etc/cdi").mkdir()
    (tmp_path / "etc/cdi/nvidia.yaml").write_text(NVIDIA)
    return tmp_path


def renet(
    root: Path, *arguments: str, status: int = 0, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "machine_setup.renet", "--root", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, input=stdin, check=False)
    assert done.returncode == status, done.stderr
    return done


def data(done: "subprocess.CompletedProcess[str]") -> Any:
    answer = json.loads(done.stdout)
    assert answer["ok"]
    return answer["data"]


def test_list_names_every_device_its_file_and_its_nodes(root: Path) -> None:
    spec = str(root / "etc/cdi/nvidia.yaml")
    assert data(renet(root, "cdi", "list", "-o", "json")) == {
        "devices": [
            {"name": "nvidia.com/gpu=0", "spec": spec, "nodes": ["/dev/nvidia0"], "annotations": {}},
            {
                "name": "nvidia.com/gpu=all",
                "spec": spec,
                "nodes": ["/dev/nvidia0", "/dev/nvidia1"],
                "annotations": {},
            },
        ],
        "errors": [],
    }
    table = renet(root, "cdi", "list").stdout.splitlines()
    assert [line.split() for line in table[1:]] == [
        ["nvidia.com/gpu=0", spec, "/dev/nvidia0"],
        ["nvidia.com/gpu=all", spec, "/dev/nvidia0", "/dev/nvidia1"],
    ]


def test_list_tells_what_an_engine_would_skip_and_where_it_is_wrong(root: Path) -> None:
    path = root / "etc/cdi/acme.yaml"
    path.write_text(BROKEN)
    done = renet(root, "cdi", "list")
    place = f"{path}:5: devices[0].containerEdits.env[0]"
    assert done.stderr == f"warning: {place}: 'FAST'; a variable is NAME=VALUE\n"
    assert "nvidia.com/gpu=0" in done.stdout
    (error,) = data(renet(root, "cdi", "list", "-o", "json"))["errors"]
    assert (error["file"], error["line"], error["code"]) == (str(path), 5, "bad-env")


def test_other_directories_can_be_read_and_the_later_wins(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "run-cdi"
    other.mkdir()
    (other / "nvidia.yaml").write_text(NVIDIA.replace("/dev/nvidia0", "/dev/nvidia7"))
    directories = ("--spec-dir", str(root / "etc/cdi"), "--spec-dir", str(other))
    devices = data(renet(root, "cdi", "list", *directories, "-o", "json"))["devices"]
    assert {device["spec"] for device in devices} == {str(other / "nvidia.yaml")}
    assert "/dev/nvidia7" in renet(root, "cdi", "show", "nvidia.com/gpu=0", *directories).stdout


def test_show_tells_a_devices_own_edits_from_its_specs(root: Path) -> None:
    shown = data(renet(root, "cdi", "show", "nvidia.com/gpu=0", "-o", "json"))
    assert shown["deviceEdits"] == {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    assert sorted(shown["commonEdits"]) == ["env", "hooks", "mounts"]
    assert (shown["spec"], shown["cdiVersion"]) == (str(root / "etc/cdi/nvidia.yaml"), "0.5.0")
    text = renet(root, "cdi", "show", "nvidia.com/gpu=0").stdout
    for line in (
        "device node  /dev/nvidia0 rwm",
        "environment  NVIDIA_VISIBLE_DEVICES=void",
        "hook         createContainer: nvidia-cdi-hook chmod",
        "mount        /usr/lib/libcuda.so at /usr/lib/libcuda.so ro,rbind",
    ):
        assert line in text
    assert text.index("/dev/nvidia0") < text.index("with every device of its spec")


def test_show_answers_an_unknown_name_with_the_near_misses(root: Path) -> None:
    done = renet(root, "cdi", "show", "nvidia.com/gpu=1", status=5)
    assert "no spec on this machine defines nvidia.com/gpu=1" in done.stderr
    assert "nvidia.com/gpu=0" in done.stderr
    renet(root, "cdi", "show", "0", status=2)


def test_show_prints_nothing_that_a_terminal_obeys(root: Path) -> None:
    path = root / "etc/cdi/nvidia.yaml"
    path.write_text(NVIDIA.replace("NVIDIA_VISIBLE_DEVICES=void", '"A=\\e]0;x\\a"'))
    assert "\x1b" not in renet(root, "cdi", "show", "nvidia.com/gpu=0").stdout


def test_validate_says_what_is_wrong_and_where(root: Path, tmp_path: Path) -> None:
    good, bad = root / "etc/cdi/nvidia.yaml", tmp_path / "acme.yaml"
    bad.write_text(BROKEN)
    assert renet(root, "cdi", "validate", str(good)).stdout == (
        f"{good}: valid, nvidia.com/gpu with 2 devices\n"
    )
    lines = renet(root, "cdi", "validate", str(good), str(bad), "/nonexistent", status=12).stdout.splitlines()
    assert lines[1] == f"{bad}:5: devices[0].containerEdits.env[0]: 'FAST'; a variable is NAME=VALUE"
    assert lines[2].startswith("/nonexistent: cannot be read")
    answer = json.loads(renet(root, "cdi", "validate", str(good), str(bad), "-o", "json", status=12).stdout)
    assert answer["ok"] is False
    assert answer["error"]["code"] == "invalid-spec"
    assert [file["valid"] for file in answer["data"]] == [True, False]
    assert answer["data"][1]["problems"][0]["where"] == "devices[0].containerEdits.env[0]"


def test_validate_reads_standard_input(root: Path) -> None:
    assert "valid" in renet(root, "cdi", "validate", "-", stdin=NVIDIA).stdout
    assert "-:5: devices[0]" in renet(root, "cdi", "validate", "-", stdin=BROKEN, status=12).stdout


def test_generate_writes_once_and_says_so(root: Path) -> None:
    renet(root, "cdi", "generate", "--dry-run")
    assert sorted(path.name for path in (root / "etc/cdi").iterdir()) == ["nvidia.yaml"]
    for action in ("written", "unchanged"):
        done = data(renet(root, "cdi", "generate", "-o", "json"))
        assert [(spec["kind"], spec["action"], spec["devices"]) for spec in done["specs"]] == [
            ("rediacc.io/dri", action, ["rediacc.io/dri=renderD128"]),
            ("rediacc.io/amd", action, ["rediacc.io/amd=gpu0", "rediacc.io/amd=all"]),
        ]
    names = [device["name"] for device in data(renet(root, "cdi", "list", "-o", "json"))["devices"]]
    assert "rediacc.io/amd=gpu0" in names
    assert "rediacc.io/pci-address: 0000:c3:00.0" in renet(root, "cdi", "show", "rediacc.io/amd=gpu0").stdout


def test_generate_tells_of_a_name_that_means_another_card_now(root: Path) -> None:
    renet(root, "cdi", "generate")
    uevent = root / "sys/devices/pci0000:00/0000:c3:00.0/uevent"
    uevent.write_text(uevent.read_text().replace("c3:00.0", "c4:00.0"))
    done = renet(root, "cdi", "generate")
    assert (
        "warning: rediacc.io/dri=renderD128 was 0000:c3:00.0 0x1002 0x744c "
        "and is now 0000:c4:00.0 0x1002 0x744c\n"
    ) in done.stderr


def test_generate_says_why_it_cannot_write(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = renet(root, "cdi", "generate", "--spec-dir", str(tmp_path / "file/cdi"), status=1)
    assert "cannot be written" in done.stderr


def test_the_schema_is_printed_as_shipped(root: Path) -> None:
    assert renet(root, "cdi", "schema").stdout == schema_text()


COMPLETE = "import sys; sys.argv[0] = 'renet'; import machine_setup.renet as m; m.main()"


def test_names_are_completed(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE],
        env={
            "_RENET_COMPLETE": "bash_complete",
            "COMP_WORDS": f"renet --root {root} cdi show nvidia.com/gpu=a",
            "COMP_CWORD": "5",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.stdout == "plain,nvidia.com/gpu=all\n"

"""A repository's view of the machine's specs: the granted devices, whole, and nothing else."""

import json
from pathlib import Path

import pytest

from spec import registry, view
from spec.model import Spec
from spec.reader import parse_spec
from spec.writer import encode_spec

EDITS = {
    "env": ["A=b"],
    "deviceNodes": [
        {"path": "/dev/x", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 0, "uid": 0, "gid": 5}
    ],
    "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"], "type": "bind"}],
    "hooks": [{"hookName": "prestart", "path": "/h", "args": ["h"], "env": ["C=d"], "timeout": 0}],
    "intelRdt": {"closID": "c", "schemata": ["L3:0=f"], "enableMonitoring": True},
    "additionalGids": [44],
    "netDevices": [{"hostInterfaceName": "eth0", "name": "eth1"}],
}
SPEC = {
    "cdiVersion": "1.1.0",
    "kind": "nvidia.com/gpu",
    "annotations": {"org.mobyproject.buildkit.device.autoallow": "true"},
    "containerEdits": {"env": ["COMMON=1"]},
    "devices": [
        {"name": name, "annotations": {"a.b/c": "d"}, "containerEdits": EDITS} for name in ("0", "1", "all")
    ],
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    directory = tmp_path / "etc-cdi"
    directory.mkdir()
    (directory / "nvidia.yaml").write_text(json.dumps(SPEC))
    other = {**SPEC, "kind": "rediacc.io/dri", "devices": [{"name": "renderD128", "containerEdits": EDITS}]}
    (directory / "rediacc.io-dri.yaml").write_text(json.dumps(other))
    return directory


def names(directory: Path) -> tuple[str, ...]:
    found = registry.read([directory])
    assert not found.errors
    return found.names()


@pytest.mark.parametrize(
    ("granted", "seen"),
    [
        (set(), ()),
        ({"nvidia.com/gpu=0"}, ("nvidia.com/gpu=0",)),
        ({"nvidia.com/gpu=all"}, ("nvidia.com/gpu=all",)),
        (
            {"nvidia.com/gpu=0", "rediacc.io/dri=renderD128"},
            ("nvidia.com/gpu=0", "rediacc.io/dri=renderD128"),
        ),
        ({"nvidia.com/gpu=gone"}, ()),
    ],
)
def test_the_view_holds_what_is_granted_and_no_more(
    machine: Path, tmp_path: Path, granted: set[str], seen: tuple[str, ...]
) -> None:
    view.write(tmp_path / "view", view.cut(registry.read([machine]), granted))
    assert names(tmp_path / "view") == seen


def test_a_device_in_the_view_injects_what_it_injects_on_the_machine(machine: Path, tmp_path: Path) -> None:
    view.write(tmp_path / "view", view.cut(registry.read([machine]), {"nvidia.com/gpu=1"}))
    original = registry.read([machine]).resolve("nvidia.com/gpu=1")
    assert registry.read([tmp_path / "view"]).resolve("nvidia.com/gpu=1").edits == original.edits


def test_no_annotation_offers_the_devices_of_a_view_to_builds(machine: Path, tmp_path: Path) -> None:
    view.write(tmp_path / "view", view.cut(registry.read([machine]), {"nvidia.com/gpu=1"}))
    (file,) = (tmp_path / "view").iterdir()
    assert "annotations" not in file.read_text()


def test_the_directory_stays_the_same_and_a_second_write_changes_nothing(
    machine: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "view"
    view.write(directory, {})
    before = directory.stat().st_ino
    wanted = view.cut(registry.read([machine]), {"nvidia.com/gpu=0"})
    assert view.write(directory, wanted)
    (file,) = directory.iterdir()
    written = file.stat().st_mtime_ns
    assert not view.write(directory, wanted)
    assert (directory.stat().st_ino, file.stat().st_mtime_ns) == (before, written)
    assert view.write(directory, {})
    assert (list(directory.iterdir()), directory.stat().st_ino) == ([], before)


def test_what_is_written_reads_back_as_the_same_spec() -> None:
    spec = parse_spec(json.dumps(SPEC).encode())
    assert parse_spec(encode_spec(spec)) == spec
    assert isinstance(spec, Spec)

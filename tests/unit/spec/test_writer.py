"""A written spec reads back as it was, appears whole, and is written only when it differs."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from spec.reader import parse_spec, read_spec
from spec.registry import CachedRegistry
from spec.validate import HOOK_NAMES, NODE_TYPES
from spec.writer import UnwritableSpecError, encode_spec, remove_spec, write_spec
from tests.unit.spec.vectors import cases

# A busy machine is no failure: these tests check what comes out, not when.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Any text but lone surrogates, which no file can hold.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SOME_TEXT = TEXT.filter(bool)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
ENV = st.lists(st.tuples(SOME_TEXT.filter(lambda text: "=" not in text), TEXT).map("=".join), max_size=3)
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", fullmatch=True)
WORDS = st.sampled_from(["0", "010", "1:30", "y", "no", "null", "1e3", "2024-05-06", "a0"])
INT64 = st.none() | st.integers(-(2**63), 2**63 - 1)
UINT32 = st.none() | st.integers(0, 2**32 - 1)

NODES = st.builds(
    DeviceNode,
    path=SOME_TEXT,
    host_path=TEXT,
    type=st.sampled_from(["", *NODE_TYPES]),
    major=INT64,
    minor=INT64,
    file_mode=UINT32,
    permissions=st.sampled_from(["", "r", "rw", "mrw"]),
    uid=UINT32,
    gid=UINT32,
)
EDITS = st.builds(
    ContainerEdits,
    env=ENV.map(tuple),
    device_nodes=st.lists(NODES, max_size=2).map(tuple),
    mounts=st.lists(
        st.builds(Mount, host_path=SOME_TEXT, container_path=SOME_TEXT, options=TEXTS, type=TEXT), max_size=2
    ).map(tuple),
    hooks=st.lists(
        st.builds(
            Hook,
            name=st.sampled_from(HOOK_NAMES),
            path=SOME_TEXT,
            args=TEXTS,
            env=ENV.map(tuple),
            timeout=INT64,
        ),
        max_size=2,
    ).map(tuple),
    intel_rdt=st.none()
    | st.builds(
        IntelRdt,
        clos_id=st.sampled_from(["", "/", "gold"]),
        l3_cache_schema=TEXT,
        mem_bw_schema=TEXT,
        schemata=st.none() | TEXTS,
        enable_monitoring=st.booleans(),
    ),
    additional_gids=st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
    net_devices=st.sampled_from([(), (NetDevice("ens5f0", "net0"), NetDevice("ens5f1", "0"))]),
)
SPECS = st.builds(
    Spec,
    version=st.just("1.1.0"),
    kind=st.sampled_from(["acme.example/gpu", "acme.example/gpu.v2"]),
    devices=st.lists(
        st.builds(
            Device,
            name=NAMES | WORDS,
            edits=EDITS.filter(lambda edits: not edits.is_empty()),
            annotations=st.dictionaries(TEXT | WORDS, TEXT | WORDS, max_size=3),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda device: device.name,
    ).map(tuple),
    edits=EDITS,
    annotations=st.dictionaries(TEXT | WORDS, TEXT | WORDS, max_size=3),
)


@PATIENT
@given(SPECS)
def test_every_spec_reads_back_as_it_was(spec: Spec) -> None:
    data = encode_spec(spec)
    assert parse_spec(data) == spec
    assert encode_spec(parse_spec(data)) == data


@pytest.mark.parametrize(
    "case",
    [case for case in cases("cdi-specs.json") if case["valid"] and "differs" not in case],
    ids=lambda case: case["id"],
)
def test_every_spec_that_is_read_can_be_written(case: dict[str, Any]) -> None:
    spec = parse_spec(base64.b64decode(case["b64"]) if "b64" in case else case["text"].encode())
    assert parse_spec(encode_spec(spec)) == spec


def spec_of(*names: str) -> Spec:
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/null"),))
    return Spec("0.5.0", "acme.example/gpu", tuple(Device(name, edits) for name in names))


def test_the_order_in_which_annotations_were_made_does_not_matter() -> None:
    one, other = (
        Spec("0.6.0", "acme.example/gpu", spec_of("a").devices, annotations=annotations)
        for annotations in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    )
    assert encode_spec(one) == encode_spec(other)


def test_a_spec_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "cdi/acme.yaml"
    assert write_spec(path, spec_of("0"))
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat()
    assert not write_spec(path, spec_of("0"))
    # The time of access is not among them: whoever looks for a difference reads the file.
    after = path.stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    assert write_spec(path, spec_of("0", "1"))
    assert read_spec(path) == spec_of("0", "1")
    assert [found.name for found in path.parent.iterdir()] == ["acme.yaml"]


def test_a_spec_is_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    write_spec(path, spec_of("0"))
    assert remove_spec(path)
    assert not remove_spec(path)


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(),
        spec_of("a b"),
        spec_of("a", "a"),
        Spec("0.5.0", "k/gpu", spec_of("a").devices),
        Spec("0.4.0", "acme.example/gpu", spec_of("0").devices),
    ],
    ids=["no-devices", "bad-name", "duplicate", "one-letter-vendor", "version-too-low"],
)
def test_an_invalid_spec_is_not_written(spec: Spec, tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    with pytest.raises(UnwritableSpecError):
        write_spec(path, spec)
    assert list(tmp_path.iterdir()) == []


REWRITES = 2_000
WRITER = """
import sys
from pathlib import Path
from spec.reader import parse_spec
from spec.writer import write_spec
path, count = Path(sys.argv[1]), int(sys.argv[2])
specs = [parse_spec(Path(name).read_bytes()) for name in sys.argv[3:]]
for turn in range(count):
    assert write_spec(path, specs[turn % 2])
"""


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory: on a disk, the loop below would measure its fsync."""
    with TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


def test_a_half_written_spec_is_never_seen(memory_path: Path, tmp_path: Path) -> None:
    """One process rewrites a spec thousands of times, another reads the directory all the while."""
    directory = memory_path
    states = {}
    for name, spec in {"few": spec_of("a0"), "many": spec_of("a0", "a1", "a2", "a3")}.items():
        (tmp_path / name).write_bytes(encode_spec(spec))
        states[(tmp_path / name).read_bytes()] = tuple(sorted(spec.qualified_names()))
    write_spec(directory / "acme.yaml", spec_of("a0"))
    seen_bytes: set[bytes] = set()
    seen_names: set[tuple[str, ...]] = set()
    registry = CachedRegistry([directory])

    arguments = (directory / "acme.yaml", REWRITES, tmp_path / "many", tmp_path / "few")
    with subprocess.Popen([sys.executable, "-c", WRITER, *map(str, arguments)]) as writer:
        while writer.poll() is None:
            seen_bytes.add((directory / "acme.yaml").read_bytes())
            current = registry.current()
            assert current.errors == ()
            seen_names.add(current.names())

    assert writer.returncode == 0
    # Both states were met, and no third.
    assert seen_bytes == set(states)
    assert seen_names == set(states.values())

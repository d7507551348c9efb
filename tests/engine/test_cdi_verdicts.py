"""Our reader and a real engine read the same directory, and agree on every name in it."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from spec.registry import read
from tests.engine.conftest import StartDaemon
from tests.engine.daemon import Daemon
from tests.engine.obtain import Engine
from tests.mutations import mutations
from tests.unit.spec.test_registry import build
from tests.unit.spec.vectors import cases

# An engine's library reads the versions up to its own, and knows the fields that came with them.
_OF_1_1 = r"1\.1\.0|netDev|schemata|enableMonitoring"
NEWER = {
    (26, 1): rf"{_OF_1_1}|1\.0\.0|0\.8\.0",
    (28, 5): _OF_1_1,
    (29, 1): _OF_1_1,
}
# What the library took and refused before 1.1.0, its newest version, which our verdicts follow.
CHANGED = {"rdt-root", "rdt-old-cmt"}
VENDORS = {"kestrel.io": "k", "nvidia.com": "n", "amd.com": "a", "intel.com": "i"}


def content(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["b64"]) if "b64" in case else str(case["text"]).encode()


def own_vendor(data: bytes, number: int) -> bytes:
    """The spec with a vendor of its own, so that no two files of a directory clash."""
    for vendor, letter in VENDORS.items():
        data = data.replace(vendor.encode(), f"{letter}{number}.test".encode())
    return data


def comparable(data: bytes, engine: tuple[int, int]) -> bool:
    """Whether the engine's library knows everything in `data`."""
    newer = NEWER.get(engine)
    return newer is None or not re.search(newer.encode(), data, re.IGNORECASE)


def engines_names(daemon: Daemon, candidates: set[str]) -> set[str]:
    """The names that the engine knows: all of them, or with an old one those among `candidates`."""
    if daemon.engine.version >= (28, 2):
        found = json.loads(daemon.docker("info", "--format={{json .DiscoveredDevices}}").stdout)
        return {device["ID"] for device in found or ()}
    named = [word for name in sorted(candidates) for word in ("--device", name)]
    refused = daemon.docker("run", "--rm", *named, "busybox", "true", check=False).stderr
    return candidates - set(re.findall(r"[^\s,]+/[^\s,]+=[^\s,]*[A-Za-z0-9]", refused))


def agree(start_daemon: StartDaemon, specs: dict[str, bytes], candidates: set[str]) -> set[str]:
    """Check that both read the same names in a directory of `specs`; returns them."""
    daemon = start_daemon()
    # Written while the engine is down: it would read the whole directory again for every file.
    daemon.stop()
    for path in daemon.cdi_dir.iterdir():
        path.unlink()
    for name, data in specs.items():
        (daemon.cdi_dir / name).write_bytes(data)
    daemon.start()
    ours = set(read([daemon.cdi_dir]).names())
    theirs = engines_names(daemon, candidates | ours)
    assert not [(name, *_spec_of(name, specs)) for name in sorted(ours ^ theirs)]
    return ours


def _spec_of(name: str, specs: dict[str, bytes]) -> tuple[str, bytes]:
    """The file that `name` should be in, for whoever reads a failure."""
    number = re.match(r"[a-z](\d+)\.test/", name)
    found = [(file, data) for file, data in specs.items() if number and file.startswith(f"c{number[1]}.")]
    return found[0] if found else ("", b"")


def test_the_vectors_specs(start_daemon: StartDaemon, engine: Engine) -> None:
    specs, candidates = {}, set()
    for number, case in enumerate(cases("cdi-specs.json")):
        # A null element or a one-letter vendor would end the engine.
        if "panics" in case or "differs" in case or case["id"] in CHANGED:
            continue
        data = content(case)
        if comparable(data, engine.version):
            specs[f"c{number}.{case['ext']}"] = own_vendor(data, number)
            candidates |= {f"k{number}.test/tpu=core-a", f"n{number}.test/gpu=0", f"n{number}.test/gpu=all"}
    assert len(specs) > 200
    assert len(agree(start_daemon, specs, candidates)) > 120


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thousands_of_damaged_specs(start_daemon: StartDaemon, engine: Engine, seed: int) -> None:
    """Each a vector's spec with some change that a person, an editor or an attacker could make."""
    seeds = [
        (Path(f"x.{case['ext']}").suffix, case["text"])
        for case in cases("cdi-specs.json")
        if "text" in case
        and len(case["text"]) < 3_000
        and not {"panics", "differs"} & set(case)
        and case["id"] not in CHANGED
    ]
    specs: dict[str, bytes] = {}
    candidates: set[str] = set()
    for suffix, data in mutations(seeds, seed):
        number = len(specs)
        if comparable(data, engine.version):
            specs[f"c{number}{suffix}"] = own_vendor(data, number)
            candidates |= {f"k{number}.test/tpu=core-a"}
        if len(specs) == 1_500:
            break
    assert len(agree(start_daemon, specs, candidates)) > 100


@pytest.mark.slow
def test_the_vectors_directories(start_daemon: StartDaemon, tmp_path: Path) -> None:
    daemon = start_daemon()
    for case in cases("cdi-dirs.json"):
        if case["category"] == "one-letter":
            continue
        root = tmp_path / case["id"]
        root.mkdir()
        for directory in case["dirs"]:
            build(root, directory)
        directories = [f"{root}/{directory}" for directory in case["priority"]]
        daemon.configure({"cdi-spec-dirs": directories})
        daemon.restart()
        ours = set(read(directories).names())
        candidates = {*case["devices"], *case["conflicts"]}
        assert (case["id"], engines_names(daemon, candidates)) == (case["id"], ours)

"""The specs that we generate, as a real engine takes them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spec.generate import generate
from spec.layout import Layout
from spec.reader import read_spec
from spec.registry import read
from tests import trees
from tests.engine.conftest import StartDaemon
from tests.engine.daemon import Daemon
from tests.engine.gpu_nodes import make_nodes

# Character devices that runc lets no container open unasked (see stand_in).
KMSG, FUSE, LOOP_CONTROL = (1, 11), (10, 229), (10, 237)
LISTS_DEVICES = (28, 2)


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    started = start_daemon()
    nodes = {"kfd": FUSE, "dri/renderD128": KMSG, "dri/renderD129": LOOP_CONTROL}
    make_nodes(started, nodes)
    return started


def bring(machine: trees.Machine, daemon: Daemon) -> None:
    generate(Layout.at(machine.root), directory=daemon.cdi_dir)


def listed(daemon: Daemon) -> set[str]:
    """Our devices among those that ``docker info`` lists."""
    found = json.loads(daemon.docker("info", "--format={{json .DiscoveredDevices}}").stdout)
    return {device["ID"] for device in found or () if device["ID"].startswith("rediacc.io/")}


def run(daemon: Daemon, name: str, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return daemon.docker(
        "run", "--rm", *options, "--device", name, "busybox", "sh", "-c", script, check=False
    )


def eventually(condition: Callable[[], bool], daemon: Daemon) -> None:
    """inotify is quick, but not at once."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, daemon.log()[-2_000:]
        time.sleep(0.02)


def test_every_generated_device_is_accepted_and_its_nodes_open(daemon: Daemon, tmp_path: Path) -> None:
    machine = trees.amd_apu_and_card(tmp_path)
    bring(machine, daemon)
    registry = read([daemon.cdi_dir])
    ours = {name for name in registry.names() if name.startswith("rediacc.io/")}
    assert len(ours) == 5
    if daemon.engine.version >= LISTS_DEVICES:
        eventually(lambda: listed(daemon) == ours, daemon)
    for name in sorted(ours):
        paths = [node.path for node in registry.resolve(name).edits.device_nodes]
        done = run(daemon, name, " && ".join(f"open-device {path}" for path in paths))
        assert done.stdout.splitlines() == [f"opened {path}" for path in paths], done.stderr


def test_a_device_brings_its_own_card_and_no_other(daemon: Daemon, tmp_path: Path) -> None:
    bring(trees.amd_apu_and_card(tmp_path), daemon)
    done = run(daemon, "rediacc.io/amd=gpu0", "ls /dev/dri; ls /dev/kfd")
    assert done.stdout.split() == ["renderD129", "/dev/kfd"]
    assert run(daemon, "rediacc.io/dri=renderD129", "ls /dev/dri /dev/kfd").stdout.split() == [
        "/dev/dri:",
        "renderD129",
    ]


def test_an_unprivileged_user_of_the_container_opens_the_node(daemon: Daemon, tmp_path: Path) -> None:
    bring(trees.intel_card(tmp_path), daemon)
    name, node = "rediacc.io/dri=renderD128", "/dev/dri/renderD128"
    script = f"stat -c 'group %g mode %a' {node}; open-device {node}"
    done = run(daemon, name, script, "--user=1000:1000")
    assert done.stdout.splitlines() == ["group 105 mode 666", f"opened {node}"], done.stderr


@pytest.mark.parametrize("build", [trees.vgem_and_virtio, trees.mi300_cpx, trees.nvidia_and_intel])
def test_the_specs_of_other_machines_are_accepted(
    build: Callable[[Path], trees.Machine], daemon: Daemon, tmp_path: Path
) -> None:
    bring(build(tmp_path), daemon)
    for name in read([daemon.cdi_dir]).names():
        if name in {"rediacc.io/dri=renderD128", "rediacc.io/dri=renderD129"}:
            node = f"/dev/dri/{name.partition('=')[2]}"
            assert run(daemon, name, f"open-device {node}").stdout == f"opened {node}\n"
    if daemon.engine.version >= LISTS_DEVICES:
        ours = {name for name in read([daemon.cdi_dir]).names() if name.startswith("rediacc.io/")}
        eventually(lambda: listed(daemon) == ours, daemon)


def test_a_regenerated_spec_is_noticed_without_a_restart(daemon: Daemon, tmp_path: Path) -> None:
    machine = trees.intel_card(tmp_path)
    bring(machine, daemon)
    first, second = "rediacc.io/dri=renderD128", "rediacc.io/dri=renderD129"
    eventually(lambda: run(daemon, first, "true").returncode == 0, daemon)
    assert "unresolvable CDI devices" in run(daemon, second, "true").stderr

    machine.pci_card("0000:04:00.0", trees.INTEL, 0x56A0, 129, driver="i915")
    bring(machine, daemon)
    eventually(lambda: run(daemon, second, "true").returncode == 0, daemon)

    machine.unplug(128)
    bring(machine, daemon)
    eventually(lambda: "unresolvable CDI devices" in run(daemon, first, "true").stderr, daemon)

    machine.unplug(129)
    bring(machine, daemon)
    assert not (daemon.cdi_dir / "rediacc.io-dri.yaml").exists()
    eventually(lambda: "unresolvable CDI devices" in run(daemon, second, "true").stderr, daemon)


REWRITES = 1_000
WRITER = """
import sys
from pathlib import Path
from spec.reader import parse_spec
from spec.writer import write_spec
path, count = Path(sys.argv[1]), int(sys.argv[2])
specs = [parse_spec(Path(name).read_bytes()) for name in sys.argv[3:]]
for turn in range(count):
    write_spec(path, specs[turn % 2])
"""


def test_the_engine_never_sees_a_half_written_spec(daemon: Daemon, tmp_path: Path) -> None:
    target = daemon.cdi_dir / "rediacc.io-dri.yaml"
    states = {}
    for name, build in (("many", trees.nvidia_and_intel), ("few", trees.intel_card)):
        generate(Layout.at(build(tmp_path / name).root), directory=daemon.cdi_dir)
        state = tmp_path / f"{name}.yaml"
        state.write_bytes(target.read_bytes())
        states[state] = frozenset(read_spec(state).qualified_names())
    always = "rediacc.io/dri=renderD128"
    eventually(lambda: run(daemon, always, "true").returncode == 0, daemon)

    seen: set[frozenset[str]] = set()
    arguments = (target, REWRITES, *states)
    with subprocess.Popen([sys.executable, "-c", WRITER, *map(str, arguments)]) as writer:
        while writer.poll() is None:
            started = run(daemon, always, "true")
            assert started.returncode == 0, started.stderr
            if daemon.engine.version >= LISTS_DEVICES:
                seen.update(frozenset(listed(daemon)) for _ in range(10))
    assert writer.returncode == 0
    if daemon.engine.version >= LISTS_DEVICES:
        assert seen == set(states.values())

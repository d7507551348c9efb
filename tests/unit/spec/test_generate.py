"""Our specs say what the machine has, are written only when that has changed, and go with the last device."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spec.generate import Generation, generate
from spec.layout import Layout
from spec.reader import read_spec
from spec.registry import read
from tests import trees


def run(root: Path, dry_run: bool = False) -> Generation:
    return generate(Layout.at(root), dry_run)


def actions(generation: Generation) -> list[str]:
    return [outcome.action for outcome in generation.outcomes]


def nodes(root: Path) -> dict[str, list[str]]:
    """What each generated name injects."""
    registry = read([root / "etc/cdi"])
    assert registry.errors == ()
    return {
        name: [node.path for node in registry.resolve(name).edits.device_nodes] for name in registry.names()
    }


CPX = [f"/dev/dri/renderD{minor}" for minor in range(128, 136)]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (trees.intel_card, {"rediacc.io/dri=renderD128": ["/dev/dri/renderD128"]}),
        (
            trees.amd_card,
            {
                "rediacc.io/amd=all": ["/dev/kfd", "/dev/dri/renderD128"],
                "rediacc.io/amd=gpu0": ["/dev/kfd", "/dev/dri/renderD128"],
                "rediacc.io/dri=renderD128": ["/dev/dri/renderD128"],
            },
        ),
        (
            trees.amd_apu_and_card,
            {
                "rediacc.io/amd=all": ["/dev/kfd", "/dev/dri/renderD129", "/dev/dri/renderD128"],
                "rediacc.io/amd=gpu0": ["/dev/kfd", "/dev/dri/renderD129"],
                "rediacc.io/amd=gpu1": ["/dev/kfd", "/dev/dri/renderD128"],
                "rediacc.io/dri=renderD128": ["/dev/dri/renderD128"],
                "rediacc.io/dri=renderD129": ["/dev/dri/renderD129"],
            },
        ),
        (
            trees.amd_without_kfd,
            {
                "rediacc.io/amd=all": ["/dev/kfd", "/dev/dri/renderD128"],
                "rediacc.io/amd=gpu0": ["/dev/kfd", "/dev/dri/renderD128"],
                "rediacc.io/dri=renderD128": ["/dev/dri/renderD128"],
                "rediacc.io/dri=renderD129": ["/dev/dri/renderD129"],
            },
        ),
        (
            trees.mi300_cpx,
            {
                "rediacc.io/amd=all": ["/dev/kfd", *CPX],
                "rediacc.io/amd=gpu0": ["/dev/kfd", *CPX],
                **{f"rediacc.io/dri={Path(path).name}": [path] for path in CPX},
            },
        ),
        (
            trees.nvidia_and_intel,
            {
                "rediacc.io/dri=renderD128": ["/dev/dri/renderD128"],
                "rediacc.io/dri=renderD129": ["/dev/dri/renderD129"],
            },
        ),
        (
            trees.vgem_and_virtio,
            {
                "rediacc.io/dri=renderD128": ["/dev/dri/renderD128"],
                "rediacc.io/dri=renderD129": ["/dev/dri/renderD129"],
            },
        ),
        (trees.no_gpu, {}),
    ],
)
def test_the_devices_of_a_machine(
    build: Callable[[Path], trees.Machine], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    build(tmp_path)
    generation = run(tmp_path)
    assert nodes(tmp_path) == expected
    assert sorted(name for outcome in generation.outcomes for name in outcome.names) == sorted(expected)
    kinds = {name.partition("=")[0] for name in expected}
    written = {path.name for path in (tmp_path / "etc/cdi").glob("*")}
    assert written == {f"{kind.replace('/', '-')}.yaml" for kind in kinds}


def test_a_node_is_its_path_alone_and_the_render_groups(tmp_path: Path) -> None:
    trees.amd_card(tmp_path)
    run(tmp_path)
    for name in read([tmp_path / "etc/cdi"]).names():
        for node in read([tmp_path / "etc/cdi"]).resolve(name).edits.device_nodes:
            assert (node.permissions, node.gid) == ("rw", 105)
            assert (node.host_path, node.type, node.major, node.minor, node.uid) == ("", "", None, None, None)


def test_without_a_render_group_the_node_has_no_group(tmp_path: Path) -> None:
    machine = trees.intel_card(tmp_path)
    (machine.root / "etc/group").unlink()
    run(tmp_path)
    (node,) = read([tmp_path / "etc/cdi"]).resolve("rediacc.io/dri=renderD128").edits.device_nodes
    assert node.gid is None


def identities(path: Path) -> dict[str, dict[str, str]]:
    return {device.name: dict(device.annotations) for device in read_spec(path).devices}


def test_the_cards_identity_is_kept_beside_each_name(tmp_path: Path) -> None:
    trees.amd_apu_and_card(tmp_path)
    run(tmp_path)
    apu = {
        "rediacc.io/pci-address": "0000:e6:00.0",
        "rediacc.io/vendor": "0x1002",
        "rediacc.io/product": "0x1681",
    }
    card = {
        "rediacc.io/pci-address": "0000:03:00.0",
        "rediacc.io/vendor": "0x1002",
        "rediacc.io/product": "0x73bf",
    }
    assert identities(tmp_path / "etc/cdi/rediacc.io-dri.yaml") == {"renderD128": apu, "renderD129": card}
    assert identities(tmp_path / "etc/cdi/rediacc.io-amd.yaml") == {
        "gpu0": card,
        "gpu1": apu,
        "all": {"rediacc.io/pci-address": "0000:03:00.0,0000:e6:00.0"},
    }


def test_a_partition_has_its_cards_identity_and_vgem_its_kernel_name(tmp_path: Path) -> None:
    trees.mi300_cpx(tmp_path / "mi300")
    trees.vgem_and_virtio(tmp_path / "virtual")
    run(tmp_path / "mi300")
    run(tmp_path / "virtual")
    partition = identities(tmp_path / "mi300/etc/cdi/rediacc.io-dri.yaml")["renderD135"]
    assert partition == {
        "rediacc.io/pci-address": "0000:0a:00.0",
        "rediacc.io/vendor": "0x1002",
        "rediacc.io/product": "0x74a1",
        "rediacc.io/parent": "amdgpu_xcp_6",
    }
    vgem = identities(tmp_path / "virtual/etc/cdi/rediacc.io-dri.yaml")["renderD129"]
    assert vgem == {"rediacc.io/parent": "vgem"}


def test_the_same_machine_gives_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        trees.mi300_cpx(tmp_path / name, cards=4)
        run(tmp_path / name)
        contents.append([path.read_bytes() for path in sorted((tmp_path / name / "etc/cdi").iterdir())])
    assert contents[0] == contents[1]
    assert len(contents[0]) == 2


def test_nothing_is_written_when_nothing_has_changed(tmp_path: Path) -> None:
    trees.amd_card(tmp_path)
    assert actions(run(tmp_path)) == ["written", "written"]
    before = {path: path.stat() for path in (tmp_path / "etc/cdi").iterdir()}
    directory = (tmp_path / "etc/cdi").stat().st_mtime_ns
    assert actions(run(tmp_path)) == ["unchanged", "unchanged"]
    assert {path: path.stat() for path in (tmp_path / "etc/cdi").iterdir()} == before
    assert (tmp_path / "etc/cdi").stat().st_mtime_ns == directory


def test_a_spec_goes_with_its_last_device(tmp_path: Path) -> None:
    machine = trees.amd_card(tmp_path)
    run(tmp_path)
    machine.unplug(128)
    generation = run(tmp_path)
    assert actions(generation) == ["removed", "removed"]
    assert list((tmp_path / "etc/cdi").iterdir()) == []
    assert actions(run(tmp_path)) == ["absent", "absent"]


def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    machine = trees.amd_card(tmp_path)
    assert actions(run(tmp_path, dry_run=True)) == ["written", "written"]
    assert not (tmp_path / "etc/cdi").exists()
    run(tmp_path)
    assert actions(run(tmp_path, dry_run=True)) == ["unchanged", "unchanged"]
    machine.unplug(128)
    assert actions(run(tmp_path, dry_run=True)) == ["removed", "removed"]
    assert len(list((tmp_path / "etc/cdi").iterdir())) == 2


def test_a_spec_that_somebody_changed_or_damaged_is_written_anew(tmp_path: Path) -> None:
    trees.intel_card(tmp_path)
    run(tmp_path)
    path = tmp_path / "etc/cdi/rediacc.io-dri.yaml"
    ours = path.read_bytes()
    for content in (ours + b"# mine\n", b"\0", b""):
        path.write_bytes(content)
        assert actions(run(tmp_path))[0] == "written"
        assert path.read_bytes() == ours


def test_a_symlink_in_the_place_of_a_spec_is_replaced(tmp_path: Path) -> None:
    trees.intel_card(tmp_path)
    run(tmp_path)
    path = tmp_path / "etc/cdi/rediacc.io-dri.yaml"
    other = tmp_path / "elsewhere.yaml"
    path.rename(other)
    path.symlink_to(other)
    assert actions(run(tmp_path))[0] == "written"
    assert not path.is_symlink()


def test_a_name_that_has_come_to_mean_another_card_is_told(tmp_path: Path) -> None:
    machine = trees.Machine(tmp_path)
    intel = machine.pci_card("0000:00:02.0", trees.INTEL, 0x4680, 128, driver="i915")
    machine.pci_card("0000:01:00.0", trees.NVIDIA, 0x2684, 129, driver="nvidia")
    assert run(tmp_path).renumbered == ()

    # After a reboot the drivers came up in the other order.
    drm = tmp_path / "sys/class/drm"
    first, second = (drm / "renderD128").readlink(), (drm / "renderD129").readlink()
    for name in ("renderD128", "renderD129"):
        (drm / name).unlink()
    (drm / "renderD128").symlink_to(second)
    (drm / "renderD129").symlink_to(first)
    assert intel.is_dir()

    for dry_run in (True, False):
        assert [str(change) for change in run(tmp_path, dry_run).renumbered] == [
            "rediacc.io/dri=renderD128 was 0000:00:02.0 0x8086 0x4680 and is now 0000:01:00.0 0x10de 0x2684",
            "rediacc.io/dri=renderD129 was 0000:01:00.0 0x10de 0x2684 and is now 0000:00:02.0 0x8086 0x4680",
        ]
    assert run(tmp_path).renumbered == ()

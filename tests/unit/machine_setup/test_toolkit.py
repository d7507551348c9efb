"""NVIDIA's toolkit: when it is installed, how, and what happens where it cannot be."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.mirror import KEY, NOWHERE, mirror
from tests.unit.machine_setup.stand_ins import SPEC
from tests.unit.machine_setup.trees import MachineTree, intel_machine, nvidia_machine

MakeBox = Callable[..., Box]
MANAGERS = ("apt-get", "dnf", "zypper")
DISTRIBUTIONS = {"debian": "apt-get", "ubuntu": "apt-get", "fedora": "dnf", "rocky": "dnf", "suse": "zypper"}
SOURCES = {
    "apt-get": "etc/apt/sources.list.d/nvidia-container-toolkit.list",
    "dnf": "etc/yum.repos.d/nvidia-container-toolkit.repo",
    "zypper": "etc/zypp/repos.d/nvidia-container-toolkit.repo",
}


@pytest.fixture
def repository() -> Iterator[str]:
    with mirror() as url:
        yield url


def machine_of(box: MakeBox, distribution: str, *programs: str) -> Box:
    return box(partial(nvidia_machine, distribution=distribution), "nvidia-smi", "systemctl", *programs)


@pytest.mark.parametrize(("distribution", "manager"), DISTRIBUTIONS.items())
def test_a_machine_without_the_toolkit_gets_it_from_nvidias_repository(
    box: MakeBox, repository: str, distribution: str, manager: str
) -> None:
    # All three are there: the distribution decides.
    machine = machine_of(box, distribution, *MANAGERS)
    machine.setup("--nvidia-repository", repository)
    assert {call[0] for call in machine.stand_ins.calls() if call[0] in MANAGERS} == {manager}
    install = machine.stand_ins.calls(manager)[-1]
    assert "install" in install
    assert install[-1] == "nvidia-container-toolkit-base"
    source = (machine.tree.root / SOURCES[manager]).read_text()
    assert f"{repository}/stable/" in source
    keys = [path for path in machine.tree.root.rglob("*") if path.is_file() and path.read_bytes() == KEY]
    (key,) = keys
    assert f"/{key.relative_to(machine.tree.root)}" in source
    assert machine.inventory()["toolkit"] == {"installed": True, "version": "1.18.1"}
    assert machine.layout.nvidia_spec.read_text().endswith(SPEC)
    # What the package's own service wrote meanwhile is out of the way, and it writes to /etc/cdi from now on.
    assert not (machine.tree.root / "var/run/cdi/nvidia.yaml").exists()
    refresh = machine.tree.root / "etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
    assert "\nNVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.yaml\n" in refresh.read_text()


def test_no_container_runtime_is_ever_configured(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get")
    machine.setup("--nvidia-repository", repository)
    assert not [call for call in machine.stand_ins.calls("nvidia-ctk") if "runtime" in call]
    assert not (machine.tree.root / "etc/docker").exists()
    assert not (machine.tree.root / "etc/nvidia-container-runtime").exists()
    assert not [call for call in machine.stand_ins.calls("systemctl") if "docker" in " ".join(call)]


def test_the_second_set_up_installs_nothing(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get")
    machine.setup("--nvidia-repository", repository)
    machine.stand_ins.forget()
    assert machine.answer("--nvidia-repository", repository)["changed"] is False
    assert machine.stand_ins.calls("apt-get") == []


def test_auto_installs_nothing_without_an_nvidia_gpu_and_true_does(box: MakeBox, repository: str) -> None:
    machine = box(intel_machine, "apt-get", "systemctl")
    machine.setup("--nvidia-repository", repository)
    assert machine.stand_ins.calls("apt-get") == []
    machine.setup("--nvidia-repository", repository, "--install-nvidia-toolkit", "true")
    assert machine.inventory()["toolkit"]["installed"] is True


def test_an_installed_toolkit_is_used_as_it_is(box: MakeBox) -> None:
    machine = machine_of(box, "debian", "apt-get", "nvidia-ctk")
    machine.stand_ins.write("ctk.version", "1.17.8")
    machine.setup()
    assert machine.stand_ins.calls("apt-get") == []
    assert machine.inventory()["toolkit"]["version"] == "1.17.8"


def test_a_build_of_ones_own_is_used_as_it_is(box: MakeBox) -> None:
    machine = machine_of(box, "debian", "apt-get", "nvidia-ctk")
    machine.stand_ins.write("ctk.version", "unknown")
    machine.setup()
    assert machine.stand_ins.calls("apt-get") == []
    assert machine.inventory()["toolkit"] == {"installed": True, "version": None}


@pytest.mark.parametrize("version", ["1.12.0", "1.16.2", "1.17.7"])
def test_one_that_is_too_old_is_replaced(box: MakeBox, repository: str, version: str) -> None:
    machine = machine_of(box, "debian", "apt-get", "nvidia-ctk")
    machine.stand_ins.write("ctk.version", version)
    assert "CVE-2025-23266" in machine.setup("--nvidia-repository", repository).stderr
    assert machine.inventory()["toolkit"]["version"] == "1.18.1"


def test_the_full_set_of_packages_is_kept_in_step(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get", "nvidia-ctk")
    machine.stand_ins.write("ctk.version", "1.16.2")
    (machine.stand_ins.directory / "bin/nvidia-container-runtime-hook").symlink_to("/bin/true")
    machine.setup("--nvidia-repository", repository)
    install = machine.stand_ins.calls("apt-get")[-1]
    assert install[-2:] == ["nvidia-container-toolkit-base", "nvidia-container-toolkit"]
    assert "--no-remove" in install


def test_a_source_of_the_operators_own_is_used(box: MakeBox) -> None:
    machine = machine_of(box, "debian", "apt-get")
    own = machine.tree.write(
        "etc/apt/sources.list.d/mirror.list",
        "deb https://apt.example/libnvidia-container/stable/deb/amd64 /\n",
    )
    machine.setup("--nvidia-repository", NOWHERE)
    assert sorted(path.name for path in own.parent.iterdir()) == ["mirror.list"]
    assert machine.inventory()["toolkit"]["installed"] is True


@pytest.mark.parametrize("distribution", ["debian", "fedora", "suse"])
def test_an_offline_machine_is_told_which_package_and_gets_the_rest(box: MakeBox, distribution: str) -> None:
    machine = machine_of(box, distribution, *MANAGERS)
    error = machine.error("--nvidia-repository", NOWHERE)
    assert "cannot be fetched" in error["message"]
    assert "nvidia-container-toolkit-base" in error["hint"]
    assert "1.17.8" in error["hint"]
    assert [device["name"] for device in machine.inventory()["devices"]] == ["rediacc.io/dri=renderD128"]
    assert (machine.tree.root / "etc/udev/rules.d/70-rediacc-cdi.rules").exists()
    assert not (machine.tree.root / SOURCES[DISTRIBUTIONS[distribution]]).exists()


@pytest.mark.parametrize(
    ("distribution", "said"),
    [
        ("debian", "Could not resolve 'nvidia.github.io'"),
        ("fedora", "All mirrors were tried"),
        ("suse", "Valid metadata not found"),
    ],
)
def test_packages_that_do_not_come_are_reported_with_the_managers_own_words(
    box: MakeBox, repository: str, distribution: str, said: str
) -> None:
    machine = machine_of(box, distribution, *MANAGERS)
    machine.stand_ins.fail(DISTRIBUTIONS[distribution], "offline")
    error = machine.error("--nvidia-repository", repository)
    assert said in error["message"]
    assert "nvidia-container-toolkit-base" in error["hint"]
    # Connected again, the same command finishes the work.
    machine.stand_ins.fail(DISTRIBUTIONS[distribution], "")
    machine.setup("--nvidia-repository", repository)
    assert machine.layout.nvidia_spec.exists()


def test_a_package_manager_that_is_busy_is_reported(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get")
    machine.stand_ins.fail("apt-get", "locked")
    assert "held by process 4711" in machine.error("--nvidia-repository", repository)["message"]
    assert "DPkg::Lock::Timeout=300" in machine.stand_ins.calls("apt-get")[-1]


def test_an_interrupted_dpkg_is_finished_first(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get", "dpkg")
    machine.tree.write("var/lib/dpkg/updates/0001", "Package: half\n")
    machine.setup("--nvidia-repository", repository)
    assert machine.stand_ins.calls("dpkg") == [["dpkg", "--configure", "-a"]]
    assert machine.inventory()["toolkit"]["installed"] is True


def test_a_machine_without_a_package_manager_is_told(box: MakeBox) -> None:
    error = machine_of(box, "debian").error()
    assert "none of apt-get, dnf and zypper" in error["message"]
    assert "nvidia-container-toolkit-base" in error["hint"]


def test_what_is_no_key_is_not_taken_for_one(box: MakeBox) -> None:
    machine = machine_of(box, "debian", "apt-get")
    with mirror(b"<html>Please log in to this network</html>") as portal:
        error = machine.error("--nvidia-repository", portal)
    assert "does not hold what it should" in error["message"]
    assert not (machine.tree.root / "usr/share/keyrings").exists()


def test_only_nvidias_repository_has_to_answer(box: MakeBox, repository: str) -> None:
    machine = machine_of(box, "debian", "apt-get")
    machine.setup("--nvidia-repository", repository)
    update = machine.stand_ins.calls("apt-get")[0]
    assert f"Dir::Etc::sourcelist={machine.tree.root / SOURCES['apt-get']}" in update
    assert "Dir::Etc::sourceparts=-" in update


def bare(root: Path) -> MachineTree:
    return MachineTree(root).bare()


def test_without_a_gpu_nothing_of_nvidia_is_asked(box: MakeBox) -> None:
    machine = box(bare, *MANAGERS, "nvidia-smi", "systemctl")
    machine.setup()
    assert {call[0] for call in machine.stand_ins.calls()} == {"systemctl"}

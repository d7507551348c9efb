"""A set-up that is killed anywhere and run again ends as one that was not; a dry run changes nothing."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from machine_setup.detect.machine import Machine
from machine_setup.repository import units
from machine_setup.setup import run
from machine_setup.setup.context import Context
from machine_setup.setup.options import ToolkitMode
from machine_setup.setup.steps import Made, Moment, Outcome, Runner
from tests.unit.machine_setup.conftest import Box
from tests.unit.machine_setup.mirror import mirror
from tests.unit.machine_setup.stand_ins import StandIns
from tests.unit.machine_setup.trees import MachineTree, amd_machine, intel_machine, nvidia_machine

MakeBox = Callable[..., Box]
PROGRAMS = ("nvidia-smi", "apt-get", "dpkg", "systemctl")


@pytest.fixture(scope="module")
def repository() -> Iterator[str]:
    with mirror() as url:
        yield url


def machine(directory: Path, build: Callable[[Path], MachineTree]) -> Box:
    tree = build(directory / "machine")
    tree.write("var/lib/dpkg/updates/0001", "Package: half\n")
    return Box(tree, StandIns.of(directory / "programs", tree.root, *PROGRAMS))


def killed_at(box: Box, repository: str, moment: int, mode: ToolkitMode) -> bool:
    """Run a set-up in a child that is killed at the `moment`th moment; whether it came so far."""
    child = os.fork()
    if child == 0:
        try:
            os.environ.update(box.stand_ins.environ)
            context = Context(box.layout, box.stand_ins.programs, Machine(), mode, repository)
            _run_to_the_end_of(context, moment)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _run_to_the_end_of(context: Context, moment: int) -> None:
    seen = 0

    def watch(_moment: Moment, outcome: Outcome, _made: Made | None) -> None:
        nonlocal seen
        if seen == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1
        if _moment is Moment.ENDS:
            context.warnings += outcome.warnings

    Runner(context, watch).run(run.STEPS)


def walk(
    tmp_path: Path,
    repository: str,
    build: Callable[[Path], MachineTree],
    mode: ToolkitMode,
    prepare: Callable[[Box], None],
    *,
    also: Callable[[Box], bool] = lambda _: True,
) -> int:
    """Kill a set-up at each of its moments in turn, and finish it; how many moments it has.

    The machine is then as one whose set-up ran through, and `also` holds.
    """
    words = ("--nvidia-repository", repository, "--install-nvidia-toolkit", mode.value)
    whole = machine(tmp_path / "whole", build)
    prepare(whole)
    whole.setup(*words)
    expected = relocated(whole)
    moment = 0
    while True:
        box = machine(tmp_path / str(moment), build)
        prepare(box)
        if not killed_at(box, repository, moment, mode):
            return moment
        box.setup(*words)
        assert relocated(box) == expected, f"killed at moment {moment}"
        assert also(box), f"killed at moment {moment}"
        moment += 1


def relocated(box: Box) -> dict[str, bytes | str]:
    """The machine's state, with its place in the test's directory taken out."""
    place = str(box.tree.root)
    return {
        name: content.replace(place, "") if isinstance(content, str) else content.replace(place.encode(), b"")
        for name, content in box.state().items()
    }


def nothing(box: Box) -> None:
    """Leave the machine as it is built."""


def set_up_from(repository: str) -> Callable[[Box], None]:
    """A set-up has been there, so that `false` has something to withdraw."""

    def set_up(box: Box) -> None:
        box.setup("--nvidia-repository", repository)

    return set_up


def test_killed_at_any_moment_and_run_again_it_ends_in_the_same_state(
    tmp_path: Path, repository: str
) -> None:
    moments = walk(tmp_path, repository, nvidia_machine, ToolkitMode.AUTO, nothing)
    # Each step's start and end, and before and after each change.
    assert moments > 2 * len(run.STEPS) + 2 * 8


def test_a_withdrawal_that_is_killed_is_finished_too(tmp_path: Path, repository: str) -> None:
    assert walk(tmp_path, repository, nvidia_machine, ToolkitMode.FALSE, set_up_from(repository)) > 2 * len(
        run.STEPS
    )


def test_an_upgrade_of_the_units_that_is_killed_is_finished_too(tmp_path: Path, repository: str) -> None:
    def of_an_older_version(box: Box) -> None:
        box.tree.write(
            f"etc/systemd/system/{units.GATE}", "[Service]\nExecStart=/opt/0.0.9/renet gate serve\n"
        )
        box.stand_ins.start(units.GATE, 1_000_000_000)

    def gate_restarted(box: Box) -> bool:
        return int((box.stand_ins.directory / "active" / units.GATE).read_text()) > 1_000_000_000

    moments = walk(
        tmp_path, repository, intel_machine, ToolkitMode.FALSE, of_an_older_version, also=gate_restarted
    )
    assert moments > 2 * len(run.STEPS) + 2 * len(units.UNITS)


def test_killed_inside_a_step_it_is_finished_by_the_next(tmp_path: Path, repository: str) -> None:
    words = ("--nvidia-repository", repository)
    whole = machine(tmp_path / "whole", nvidia_machine)
    whole.setup(*words)
    for program in ("nvidia-smi", "apt-get", "dpkg", "nvidia-ctk", "systemctl"):
        box = machine(tmp_path / program, nvidia_machine)
        assert box.process(*words, STAND_IN_KILLS=program).returncode == -signal.SIGKILL
        box.setup(*words)
        assert relocated(box) == relocated(whole), program


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_killed_between_writing_and_renaming_it_leaves_nothing_behind(tmp_path: Path, call: str) -> None:
    whole = machine(tmp_path / "whole", amd_machine)
    whole.setup()
    count = 0
    while True:
        box = machine(tmp_path / str(count), amd_machine)
        if not _killed_in(box, call, count):
            break
        box.setup()
        assert relocated(box) == relocated(whole), f"killed in {call} number {count}"
        count += 1
    assert count >= 4


def _killed_in(box: Box, call: str, count: int) -> bool:
    """Run a set-up in a child that is killed in the `count`th fsync, rename or write of a temporary file."""
    child = os.fork()
    if child == 0:
        try:
            _kill_in(call, count)
            context = Context(box.layout, box.stand_ins.programs, Machine())
            run.run_steps(context, quiet=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _kill_in(call: str, count: int) -> None:
    seen = 0

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*words: object, **named: object) -> object:
            nonlocal seen
            if call == "write" and "wb" not in words:
                return function(*words, **named)
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
            return function(*words, **named)

        return wrapper

    if call == "rename":
        Path.replace = counted(Path.replace)  # type: ignore[assignment,method-assign]
        os.replace = counted(os.replace)  # type: ignore[assignment]
        os.rename = counted(os.rename)  # type: ignore[assignment]
    elif call == "fsync":
        os.fsync = counted(os.fsync)  # type: ignore[assignment]
    else:
        os.fdopen = counted(os.fdopen)  # type: ignore[assignment]


def test_a_dry_run_changes_nothing_and_shows_exactly_what_would(box: MakeBox, repository: str) -> None:
    made = box(partial(nvidia_machine, distribution="debian"), *PROGRAMS)
    before = everything(made)
    shown = made.setup("--dry-run", "--nvidia-repository", repository).stdout
    assert everything(made) == before
    root = made.tree.root
    assert f"+++ b{root}/etc/apt/sources.list.d/nvidia-container-toolkit.list" in shown
    assert (
        f"+deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.asc] {repository}/stable/deb/"
        in shown
    )
    assert f"$ download {repository}/gpgkey to {root}/usr/share/keyrings/" in shown
    assert "$ DEBIAN_FRONTEND=noninteractive apt-get install --yes" in shown
    assert f"$ nvidia-ctk cdi generate --output={root}/etc/cdi/nvidia.yaml" in shown
    assert "+NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.yaml" in shown
    assert "renderD128" in shown
    assert "$ systemctl enable rediacc-cdi-refresh.service" in shown
    assert f"+++ b{root}/etc/rediacc/gpu/inventory.json" in shown


def test_a_dry_run_shows_the_spec_line_by_line(box: MakeBox) -> None:
    made = box(nvidia_machine, "nvidia-smi", "nvidia-ctk", "systemctl")
    made.setup()
    spec = (made.stand_ins.directory / "spec.yaml").read_text()
    made.stand_ins.write("spec.yaml", spec.replace("libcuda.so.535.129.03", "libcuda.so.550.54.15"))
    before = everything(made)
    shown = made.setup("--dry-run").stdout
    assert everything(made) == before
    assert "-  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.129.03\n" in shown
    assert "+  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n" in shown


def test_a_dry_run_tells_what_set_up_then_does(box: MakeBox) -> None:
    made = box(amd_machine, "systemctl")
    planned = made.answer("--dry-run")
    done = made.answer()
    assert planned["dryRun"] is True
    for ours, theirs in zip(planned["steps"], done["steps"], strict=True):
        same = ours["name"] != "inventory"  # its time of writing differs
        assert [change["what"] for change in ours["changes"]] == [
            change["what"] for change in theirs["changes"]
        ]
        assert not same or ours["changes"] == theirs["changes"]
    assert planned["inventory"]["devices"] == done["inventory"]["devices"] != []


def everything(box: Box) -> dict[str, tuple[int, int]]:
    """Every file of the machine by what changes when it is touched."""
    return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in box.tree.root.rglob("*")}

"""The test engine keeps its own promises: it starts, obeys, and leaves nothing behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.conftest import StartDaemon, ready_daemon
from tests.engine.daemon import Daemon, DaemonError
from tests.engine.obtain import Engine, obtain
from tests.engine.refusal import Refusal
from tests.engine.stand_in import gpu_nodes


def test_a_stand_in_opens_in_the_container_that_names_it_and_in_no_other(plain_daemon: Daemon) -> None:
    injected = plain_daemon.docker(
        "run", "--rm", "--device", "nvidia.com/gpu=all", "busybox", "sh", "-c",
        "open-device /dev/nvidia0 && open-device /dev/nvidia1",
    )  # fmt: skip
    assert injected.stdout.splitlines() == ["opened /dev/nvidia0", "opened /dev/nvidia1"]
    for node in gpu_nodes():
        major, minor = node.numbers
        made = f"mknod /gpu c {major} {minor} && open-device /gpu"
        refused = plain_daemon.docker("run", "--rm", "busybox", "sh", "-c", made, check=False)
        assert refused.returncode == 1
        assert "not permitted" in refused.stderr


def test_an_init_process_is_to_be_had(plain_daemon: Daemon) -> None:
    assert "docker-init" in plain_daemon.docker("run", "--rm", "--init", "busybox", "ps").stdout


def test_the_other_device_of_a_spec_stays_out(plain_daemon: Daemon) -> None:
    done = plain_daemon.docker(
        "run", "--rm", "--device", "nvidia.com/gpu=0", "busybox", "open-device", "/dev/nvidia1", check=False
    )
    assert "no device node" in done.stderr


def test_compose_and_buildx_serve(plain_daemon: Daemon, tmp_path: Path) -> None:
    text = "services: {job: {image: busybox, network_mode: none, command: [echo, from compose]}}"
    assert "from compose" in plain_daemon.compose(text, "run", "--rm", "job").stdout
    plain_daemon.compose(text, "down")
    (tmp_path / "Dockerfile").write_text("FROM busybox\nRUN --network=none touch /built\n")
    plain_daemon.docker("buildx", "build", "-t", "built", str(tmp_path))
    plain_daemon.docker("run", "--rm", "built", "ls", "/built")
    plain_daemon.docker("image", "rm", "built")


def test_reload_and_restart_bring_a_new_daemon_json(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    daemon.docker(
        "run", "-d", "--restart=always", "--name=steady", "--stop-timeout=1", "busybox", "sleep", "600"
    )
    first = daemon.pid
    daemon.configure({"labels": ["state=reloaded"]})
    daemon.reload()
    assert (daemon.pid, "state=reloaded" in daemon.docker("info").stdout) == (first, True)
    daemon.configure({"labels": ["state=restarted"]})
    daemon.restart()
    assert daemon.pid != first
    assert "state=restarted" in daemon.docker("info").stdout
    deadline = time.monotonic() + 10
    while "steady" not in daemon.docker("ps", "--format={{.Names}}").stdout:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_left_of_an_ended_daemon(engine: Engine, killed: bool) -> None:
    before = _traces()
    with ready_daemon(engine) as daemon:
        daemon.docker("run", "-d", "busybox", "sleep", "600")
        daemon.docker("network", "create", "own")
        daemon.docker("run", "-d", "--network=own", "busybox", "sleep", "600")
        if killed:
            os.kill(daemon.pid, 9)
        directory = str(daemon.directory)
    assert not Path(directory).exists()
    assert directory not in Path("/proc/self/mountinfo").read_text()
    assert not [command for command in _commands() if directory in command]
    assert not list(Path("/sys/fs/cgroup").rglob(Path(directory).name))
    assert _traces() == before


def test_daemons_have_plugin_directories_of_their_own(start_daemon: StartDaemon) -> None:
    first = start_daemon(image=False)
    second = start_daemon(image=False)
    (first.plugin_dir / "rediacc-own.sock").touch()
    assert (Path(f"/proc/{first.pid}/root/run/docker/plugins") / "rediacc-own.sock").exists()
    assert not (Path(f"/proc/{second.pid}/root/run/docker/plugins") / "rediacc-own.sock").exists()
    assert not Path("/run/docker/plugins/rediacc-own.sock").exists()


def test_a_daemon_that_cannot_start_says_why(engine: Engine) -> None:
    daemon = Daemon(engine, {"authorization-plugins": "not a list"})
    with pytest.raises(DaemonError, match="cannot unmarshal"), daemon:
        pass
    assert not daemon.directory.exists()


def test_an_unknown_engine_is_refused_in_a_sentence() -> None:
    with pytest.raises(Refusal, match="there is no test engine hirsute"):
        obtain("hirsute")


def _commands() -> list[str]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [command for command in commands if "dockerd" in command or "containerd" in command]


def _traces() -> tuple[list[Path], list[Path]]:
    """Network interfaces, and the sockets of shims."""
    return sorted(Path("/sys/class/net").iterdir()), sorted(Path("/run/containerd").iterdir())


def test_a_run_that_is_told_to_end_leaves_no_daemon(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "import time\n"
        "def test_it(start_daemon):\n"
        "    daemon = start_daemon(image=False)\n"
        f"    open({str(tmp_path / 'directory')!r}, 'w').write(str(daemon.directory))\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "tests.engine.conftest"]
    run = subprocess.Popen(
        [*command, "-q", str(tmp_path / "told.py")], cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL
    )
    started = tmp_path / "directory"
    deadline = time.monotonic() + 60
    while not started.exists() or not started.read_text():
        assert run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.terminate()
    assert run.wait(60) == pytest.ExitCode.INTERRUPTED
    assert not Path(started.read_text()).exists()
    assert not [command for command in _commands() if started.read_text() in command]

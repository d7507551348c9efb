"""The main job, told step by step: a real Docker daemon behind the gate, one grant, one device.

``scripts/demo`` makes the environment and starts this program.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from rich.console import Console

from tests.engine.daemon import Daemon
from tests.engine.machine import Machine
from tests.engine.obtain import obtain
from tests.engine.refusal import Refusal

REPOSITORY = "demo"
ZERO, ONE = "nvidia.com/gpu=0", "nvidia.com/gpu=1"
console = Console(highlight=False, soft_wrap=True)


class Story:
    """Runs commands on the demonstration's machine, and shows each with its answer."""

    def __init__(self, machine: Machine, daemon: Daemon) -> None:
        self._machine = machine
        self._daemon = daemon

    def tell(self, text: str) -> None:
        """Say what comes next."""
        console.print(f"\n{text}", style="bold")

    def renet(self, *arguments: str) -> None:
        """Run the operator's command on the machine."""
        done = self._machine.renet(*arguments, check=False)
        self._show(["renet", *arguments], done, expected=0)

    def docker(self, *arguments: str, expected: int = 0) -> None:
        """Run the tenant's command against the repository's Docker."""
        done = self._daemon.docker(*arguments, check=False)
        self._show(["docker", *arguments], done, expected)

    def _show(self, command: Sequence[str], done: subprocess.CompletedProcess[str], expected: int) -> None:
        console.print(f"  $ {shlex.join(command)}", style="cyan", markup=False)
        said = done.stdout + done.stderr
        for line in said.strip().splitlines():
            # Docker's client adds a pointer to its help to every refusal.
            if line and not line.startswith("Run 'docker run --help'"):
                console.print(f"    {line}", markup=False)
        if done.returncode != expected:
            raise SystemExit(f"demo: that should have ended with status {expected}, not {done.returncode}")


def tell(story: Story) -> None:
    """The main job, from no grant to a grant and back."""
    story.tell("1. The tenant of the repository «demo» has no grant, and asks for a GPU.")
    story.docker("run", "--rm", "--device", ZERO, "busybox", "open-device", "/dev/nvidia0", expected=125)
    story.tell("2. The operator grants one device, by its CDI name.")
    story.renet("gpu", "grant", REPOSITORY, "--device", ZERO)
    story.tell("3. The very same command now runs and opens the device. Nothing was restarted.")
    story.docker("run", "--rm", "--device", ZERO, "busybox", "open-device", "/dev/nvidia0")
    story.tell("4. A grant is for exactly one device: the other one stays closed.")
    story.docker("run", "--rm", "--device", ONE, "busybox", "open-device", "/dev/nvidia1", expected=125)
    story.tell("5. So does every other way to hardware.")
    for way in (["--gpus", "all"], ["--privileged"], ["--device", "/dev/fuse"], ["-v", "/dev:/dev"]):
        story.docker("run", "--rm", *way, "busybox", "true", expected=125)
    story.tell("6. What is not about hardware works as ever.")
    story.docker("run", "--rm", "busybox", "echo", "hello from a container")
    story.tell("7. The operator sees who has what, and takes it back.")
    story.renet("gpu", "list")
    story.renet("gpu", "revoke", REPOSITORY, "--device", ZERO)
    story.tell("8. From the next request on it is refused again.")
    story.docker("run", "--rm", "--device", ZERO, "busybox", "open-device", "/dev/nvidia0", expected=125)


def keep(machine: Machine, daemon: Daemon) -> None:
    """Say how to go on by hand, and wait for Ctrl-C."""
    console.print("\nEverything keeps running. In another terminal, as root:", style="bold")
    for line in (
        f"export DOCKER_HOST={daemon.host}",
        f"export REDIACC_ROOT={machine.directory}",
        f"export PATH={os.path.dirname(sys.executable)}:{machine.engine.path}",  # noqa: PTH120 - a PATH entry
        f"renet gpu grant {REPOSITORY} --device {ZERO}",
        f"docker run --rm --device {ZERO} busybox open-device /dev/nvidia0",
    ):
        console.print(f"  {line}", markup=False)
    console.print("To end it and remove everything: Ctrl-C here.", style="bold")
    while True:
        time.sleep(3600)


def main() -> None:
    """Tell the story; with ``--keep`` leave its machine running."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="The main job against a real Docker.")
    parser.add_argument("--keep", action="store_true", help="leave everything running, to go on by hand")
    options = parser.parse_args()
    # SIGINT too: whoever is started in the background begins with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        engine = obtain(say=lambda line: console.print(line, markup=False))
        console.print(f"Starting Docker {'.'.join(map(str, engine.version))} with the gate in front of it …")
        with Machine(engine) as machine:
            daemon = machine.add_repository(REPOSITORY)
            machine.start_gate()
            daemon.start()
            daemon.load_image()
            tell(Story(machine, daemon))
            if options.keep:
                keep(machine, daemon)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Refusal as refusal:
        raise SystemExit(f"demo: {refusal}") from None
    console.print("\nThe daemon, the gate and their files are gone again.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()

"""The gate in a container, told in a mount namespace of its own: see ``test_container.py``.

The machine's own places (/etc/rediacc, /run/docker/plugins, …) are covered by empty directories here, so the
documented commands run as they stand and touch nothing of the machine.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.engine import stand_in
from tests.engine.daemon import Daemon
from tests.engine.mirror import debian_source
from tests.engine.obtain import Engine, obtain
from tests.engine.unpack import cache_dir
from tests.pages import script

SOURCE = Path(__file__).parents[2]
COVERED = ("/etc/rediacc", "/etc/cdi", "/run/rediacc", "/run/docker/plugins", "/var/log/rediacc")
BASE = "debian-python"


def main() -> None:
    """Build the image, run the gate from it, and have it gate a second daemon."""
    with tempfile.TemporaryDirectory(prefix="gate-container-") as temporary:
        cover(Path(temporary))
        os.environ["TMPDIR"] = tempfile.tempdir = "/run/rediacc"
        engine = obtain()
        stand_in.write_gpus(Path("/etc/cdi"))
        plugins = Path("/run/docker/plugins")
        with Daemon(engine, plugin_dir=plugins) as main_docker:
            main_docker.docker("import", str(base_image()), BASE, timeout=300)
            gated = Daemon(
                engine,
                {"cdi-spec-dirs": ["/etc/cdi"], "authorization-plugins": ["rediacc-gpu-a"]},
                plugin_dir=plugins,
            )
            try:
                renet(
                    engine, "repo", "adopt", "gpu-a", "--socket", str(gated.socket),
                    "--data-root", str(gated.data_root), "--daemon-json", str(gated.config_file),
                )  # fmt: skip
                run_the_page(engine, main_docker, Path(temporary))
                gated.start()
                the_gate_judges(engine, gated)
                main_docker.docker("rm", "-f", "rediacc-gate")
            finally:
                gated.close()


def cover(temporary: Path) -> None:
    """Put an empty directory over each of the machine's places."""
    # As systemd has it on a real machine: the container's view of / follows it.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    for number, place in enumerate(COVERED):
        ours = temporary / str(number)
        ours.mkdir()
        Path(place).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", str(ours), place], check=True)


def base_image() -> Path:
    """A root of the distribution's packages with Python and venv, kept in the cache."""
    archive = cache_dir() / "python-base.tar"
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
            root = Path(work) / "root"
            subprocess.run(
                ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "trixie", str(root),
                 debian_source().uri],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            partial = Path(work) / "base.tar"
            subprocess.run(
                ["tar", "-C", str(root), "--exclude=./var/cache/apt/*", "-cf", str(partial), "."], check=True
            )
            partial.rename(archive)
    return archive


def run_the_page(engine: Engine, docker: Daemon, temporary: Path) -> None:
    """Type the commands of docs/container.md in a clone with a wheelhouse."""
    clone = temporary / "clone"
    shutil.copytree(
        SOURCE, clone, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "*_cache", "__pycache__")
    )
    python = ["--python-version", "3.13", "--only-binary", ":all:"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "-d",
            str(clone / "wheelhouse"),
            *python,
            *requirements(),
        ],
        check=True,
    )
    typed = subprocess.run(
        ["bash", "-c", script("docs/container.md", "container")],
        check=False,
        cwd=clone,
        env={**engine.environment, "DOCKER_HOST": docker.host},
        capture_output=True,
        text=True,
    )
    if typed.returncode != 0:
        raise SystemExit(typed.stdout + typed.stderr)


def requirements() -> list[str]:
    """What the product needs, and what builds it."""
    pyproject = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    return [*pyproject["project"]["dependencies"], *pyproject["build-system"]["requires"]]


def the_gate_judges(engine: Engine, gated: Daemon) -> None:
    """A grant counts, nothing else does, and a link on the host is followed in the container too."""
    gated.load_image()
    wanted = ["run", "--rm", "--device", "nvidia.com/gpu=0", "busybox", "open-device", "/dev/nvidia0"]
    expect("has no grant for nvidia.com/gpu=0", gated.docker(*wanted, check=False))
    renet(engine, "gpu", "grant", "gpu-a", "--device", "nvidia.com/gpu=0")
    expect("opened /dev/nvidia0", gated.docker(*wanted, check=False))
    with tempfile.TemporaryDirectory(dir="/srv", prefix="gate-") as directory:
        (Path(directory) / "link").symlink_to("/dev")
        linked = gated.docker("run", "--rm", "-v", f"{directory}/link:/data", "busybox", "true", check=False)
        expect("hardware", linked)
        gated.docker("run", "--rm", "-v", f"{directory}:/data", "busybox", "true")


def expect(words: str, done: subprocess.CompletedProcess[str]) -> None:
    """End the story unless the client said `words`."""
    if words not in done.stdout + done.stderr:
        raise SystemExit(f"not said: {words}\n{done}")


def renet(engine: Engine, *arguments: str) -> None:
    """Run the operator's command on the machine as it is seen here."""
    subprocess.run(
        [sys.executable, "-m", "machine_setup.renet", *arguments],
        check=True,
        cwd=SOURCE,
        env={**engine.environment, "PYTHONPATH": str(SOURCE)},
    )


if __name__ == "__main__":
    main()

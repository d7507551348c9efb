"""systemd: the units under ``deploy/``, and what each repository adds to them."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from grants_cli.register import Repository
from machine_setup.deployed import deployed_file, is_packaged, with_renet
from machine_setup.programs import Programs
from machine_setup.repository import daemon, mounts
from spec.errors import CommandFailedError
from spec.files import replace_file
from spec.layout import Layout

GATE = "rediacc-gate.service"
#: Units that are on as soon as there is a repository.
SHARED = (GATE, "rediacc-views.service", "rediacc-views.path", "rediacc-views.timer")
UNITS = (
    "rediacc-docker@.service",
    "rediacc-docker@.socket",
    "rediacc-gate@.socket",
    "rediacc-prepare@.service",
    "rediacc.slice",
    *SHARED,
)
TMPFILES = "etc/tmpfiles.d/rediacc.conf"


def in_use(layout: Layout) -> bool:
    """Whether systemd runs this machine's services: it is there, and the layout is the real machine's."""
    return layout.root == Path("/") and Path("/run/systemd/system").is_dir()


def docker_service(slug: str) -> str:
    """The unit of the daemon of the repository `slug`."""
    return f"rediacc-docker@{slug}.service"


def docker_socket(slug: str) -> str:
    """The unit of its API's socket."""
    return f"rediacc-docker@{slug}.socket"


def gate_socket(slug: str) -> str:
    """The unit of the gate's socket for the repository `slug`."""
    return f"rediacc-gate@{slug}.socket"


def wanted_files(layout: Layout) -> Iterator[tuple[Path, bytes]]:
    """The units and what belongs to them: where each file goes on the machine, and what it says."""
    programs = Programs.of(Path("/"))
    for name in UNITS:
        yield layout.unit_dir / name, with_renet(deployed_file(f"systemd/{name}"), programs)
    yield layout.root / TMPFILES, deployed_file("tmpfiles.d/rediacc.conf")
    yield layout.root / "etc/logrotate.d/rediacc", deployed_file("logrotate.d/rediacc")


def install(layout: Layout) -> tuple[Path, ...]:
    """Put the units of ``deploy/`` on the machine; the files that had to be written.

    Does nothing to what is as it must be. Raises `CommandFailedError` where systemd does not take them.
    """
    changed = tuple(_written(path, content) for path, content in wanted_files(layout))
    written = tuple(path for path in changed if path)
    if written and in_use(layout):
        _systemctl("daemon-reload")
        _run(["systemd-tmpfiles", "--create", str(layout.root / TMPFILES)])
    return written


def _written(path: Path, content: bytes) -> Path | None:
    if is_packaged(path, content) or (path.is_file() and path.read_bytes() == content):
        return None
    replace_file(path, content)
    return path


def prepare_service(slug: str) -> str:
    """The unit that makes the daemon's places before it starts."""
    return f"rediacc-prepare@{slug}.service"


def drop_ins(layout: Layout, repository: Repository) -> dict[Path, str]:
    """What the units of `repository` say beyond their templates, by file."""
    service = layout.unit_dir / f"{docker_service(repository.slug)}.d/repository.conf"
    about = f"# Written by renet repo create for {repository.ref} ({repository.guid}).\n"
    namespace = mounts.as_unit_settings(mounts.plan(layout, repository))
    files = {service: f"{about}[Service]\n{namespace}"}
    if repository.group:
        path = layout.unit_dir / f"{docker_socket(repository.slug)}.d/repository.conf"
        files[path] = f"{about}[Socket]\nSocketGroup={repository.group}\nSocketMode=0660\n"
    return files


def enable_shared(layout: Layout) -> None:
    """Bring the units of the gate and of the views onto the machine, enable and start them."""
    install(layout)
    _systemctl("enable", *SHARED)
    # A gate that runs listens for a new repository by itself, and is not disturbed.
    _systemctl("start", "rediacc-views.path", "rediacc-views.timer", GATE)


def add(layout: Layout, repository: Repository) -> None:
    """Bring the units of `repository` onto the machine and enable them; its daemon is not started yet."""
    enable_shared(layout)
    for path, content in drop_ins(layout, repository).items():
        replace_file(path, content.encode())
    names = [gate_socket(repository.slug), docker_socket(repository.slug), docker_service(repository.slug)]
    _systemctl("enable", *names)  # which reloads systemd's files, too


def unit_of(layout: Layout, pid: int | None) -> str:
    """The service unit whose main process is `pid`; empty where systemd started no such process."""
    if pid is None or not in_use(layout):
        return ""
    try:
        groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    except OSError:
        return ""
    # systemd's own hierarchy: the unified one, or the one that it named (cgroups(7)).
    own = (Path(path).name for _, controllers, path in groups if controllers in ("", "name=systemd"))
    for unit in own:
        if unit.endswith(".service"):
            main = subprocess.run(
                ["systemctl", "show", "--property=MainPID", "--value", unit],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return unit if main.stdout.strip() == str(pid) else ""
    return ""


def override(layout: Layout, unit: str, content: str) -> Path:
    """Let the drop-in `content` of `unit` be the last to count; its file. Raises `CommandFailedError`."""
    path = layout.unit_dir / f"{unit}.d/zz-rediacc.conf"
    replace_file(path, content.encode())
    _systemctl("daemon-reload")
    return path


def restart(unit: str) -> None:
    """Restart `unit`; returns when it is ready. Raises `CommandFailedError`."""
    # An operator who asks for it is not held up by how often it has been started (docker.service: 3 in 60 s).
    subprocess.run(["systemctl", "reset-failed", unit], check=False, capture_output=True)
    _systemctl("restart", unit)


def start(repository: Repository) -> None:
    """Start the repository's daemon; returns when it is ready. Raises `CommandFailedError`."""
    _systemctl("start", docker_socket(repository.slug), docker_service(repository.slug))


def stop(repository: Repository) -> None:
    """Stop the repository's daemon and close its API; raises `CommandFailedError`."""
    _systemctl("stop", docker_socket(repository.slug), docker_service(repository.slug))


def remove(layout: Layout, repository: Repository) -> None:
    """Disable the units of `repository` and remove what it added to them."""
    names = [docker_service(repository.slug), docker_socket(repository.slug), gate_socket(repository.slug)]
    _systemctl("disable", "--now", *names)
    # systemd keeps a slice that it made for containers, empty as it is, until it is stopped.
    cgroup = daemon.cgroup_of(repository.guid)
    slices = [cgroup.parent] if cgroup.driver == "systemd" else []
    _systemctl("stop", prepare_service(repository.slug), *slices)
    for path in drop_ins(layout, repository):
        shutil.rmtree(path.parent, ignore_errors=True)
    _systemctl("daemon-reload")
    # A daemon that failed leaves its unit in memory under the name of a repository that is gone.
    subprocess.run(["systemctl", "reset-failed", *names], check=False, capture_output=True)


def _systemctl(*arguments: str) -> None:
    _run(["systemctl", "--quiet", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailedError(
            f"{' '.join(command)} failed: {done.stderr.strip() or done.returncode}",
            "journalctl -xe says why; renet doctor looks for what is known",
        )

"""What installs `renet` on a machine: sent as text, run by root under a Python that is 3.11 or newer.

Standard library alone. Arguments: ``probe RELEASE`` or ``install RELEASE`` with a tar archive on stdin that
holds ``dist/`` (our wheel), ``pip/`` (a wheel of pip) and perhaps ``wheelhouse/``. Answers as `renet` does,
with one JSON object on stdout; progress goes to stderr.

A release has a directory of its own, since a virtual environment cannot be moved. ``current`` names the
one in use and changes by rename, so at any moment there is a `renet` that works: the old one until the new
one has answered, and the old one again when the new one fails at what the old one could do.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn

BASE = Path("/opt/rediacc")
CURRENT = BASE / "current"
COMMAND = Path("/usr/local/bin/renet")
#: Written into a release when its `renet` has answered.
COMPLETE = ".complete"
#: What holds the release in memory, and has to start anew from it.
SERVICE = "rediacc-gate.service"
_UPLOAD = ".upload"


class InstallError(Exception):
    """Why the installation stops: a code, a sentence, a hint, and the exit status."""

    def __init__(self, code: str, message: str, hint: str = "", status: int = 14) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.status = code, message, hint, status


def main(mode: str, release: str) -> None:
    """Answer `probe`, or `install` the release that comes on stdin."""
    try:
        data = probe(release) if mode == "probe" else install(release)
    except InstallError as failure:
        answer({"code": failure.code, "message": failure.message, "hint": failure.hint}, failure.status)
    except OSError as error:
        answer({"code": "install-failed", "message": f"installing failed: {error}", "hint": ""}, 14)
    print(json.dumps({"ok": True, "data": data}))


def answer(error: dict[str, str], status: int) -> NoReturn:
    """Answer with `error` and end."""
    print(json.dumps({"ok": False, "error": error}))
    sys.exit(status)


def step(text: str) -> None:
    """Tell what is done now."""
    print(text, file=sys.stderr, flush=True)


def probe(release: str) -> dict[str, object]:
    """What is installed: the release in use, and whether `release` is here already."""
    return {"current": current(), "complete": (BASE / release / COMPLETE).exists()}


def install(release: str) -> dict[str, object]:
    """Install `release`, make it the current one and return what was done; raises `InstallError`."""
    if COMMAND.exists() and not COMMAND.is_symlink():
        raise InstallError(
            "foreign-renet",
            f"{COMMAND} was not put there by rdc",
            f"move it away: mv {COMMAND} {COMMAND}.old",
        )
    with locked():
        before = current()
        target = BASE / release
        if not (target / COMPLETE).exists() or not answers(target / "bin/renet"):
            build(target)
        if before != release:
            switch(release, before)
        link(COMMAND, CURRENT / "bin/renet")
        removed = prune({release, before})
    return {"release": release, "previous": before if before != release else "", "removed": removed}


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Keep a second installation out."""
    BASE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (BASE / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallError(
                "busy", "another set-up of this machine is running", "wait for it to end", 15
            ) from None
        yield


def current() -> str:
    """The release in use; "" before the first."""
    return CURRENT.readlink().name if CURRENT.is_symlink() else ""


def build(target: Path) -> None:
    """Make the environment of a release at `target`; on failure nothing of it is left."""
    upload = BASE / _UPLOAD
    shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(upload, ignore_errors=True)
    try:
        step("receiving")
        unpack(upload)
        step(f"creating {target}")
        call(
            [sys.executable, "-m", "venv", "--without-pip", str(target)],
            "the virtual environment cannot be made",
        )
        pip_install(target, upload)
        if not answers(target / "bin/renet"):
            raise InstallError(
                "install-failed", "the new renet does not answer; the machine keeps the version it had"
            )
        # --version imports none of what the gate needs: a dependency that is missing shows now.
        call([str(target / "bin/python"), "-I", "-c", "import plugin.serve"], "the new gate cannot start")
        (target / COMPLETE).touch()
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(upload, ignore_errors=True)


def unpack(upload: Path) -> None:
    """Put the files of the archive on stdin below `upload`: plain files, one directory deep."""
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                continue
            path = PurePosixPath(member.name)
            directory = upload / path.parent.name
            directory.mkdir(parents=True, exist_ok=True)
            with content, (directory / path.name).open("wb") as file:
                shutil.copyfileobj(content, file)


def pip_install(target: Path, upload: Path) -> None:
    """Install our wheel at `target` with the pip that came along."""
    pip = next((upload / "pip").glob("*.whl"))
    wheel = next((upload / "dist").glob("*.whl"))
    wheelhouse = upload / "wheelhouse"
    source = ["--no-index", "--find-links", str(wheelhouse)] if wheelhouse.exists() else []
    step(
        f"installing {wheel.name} from {'the wheelhouse' if source else 'the package index of this machine'}"
    )
    options = [
        "--no-input",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--root-user-action=ignore",
        "--quiet",
    ]
    hint = (
        "the wheelhouse lacks something for the Python of this machine: docs/rdc.md says how to fill it"
        if source
        else "a machine without an index needs --wheelhouse DIR"
    )
    # A wheel is an archive that Python can run a package from.
    call(
        [str(target / "bin/python"), f"{pip}/pip", "install", *options, *source, str(wheel)],
        "pip failed",
        hint,
    )


def call(command: list[str], problem: str, hint: str = "") -> None:
    """Run `command`; its output is progress. Raises `InstallError` with the last of it."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    lines = []
    for line in process.stdout or ():
        lines.append(line.strip())
        step(f"  {line.rstrip()}")
    if process.wait() != 0:
        tail = " / ".join(line for line in lines[-3:] if line)
        raise InstallError("install-failed", f"{problem}: {tail}", hint)


def answers(renet: Path) -> bool:
    """Whether `renet` starts and says its version."""
    try:
        result = subprocess.run(
            [renet, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


#: What a version must be able to do with what the machine has recorded, if the one before it could.
READING = (("repo", "list"), ("gpu", "grants"), ("gate", "check"))


def trouble_with(command: tuple[str, ...]) -> str:
    """What keeps the current release from running `command`; "" when nothing does."""
    words = [str(CURRENT / "bin/renet"), *command, "-o", "json"]
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return ""
    return f"renet {' '.join(command)}: {(result.stdout or result.stderr).strip()[-300:]}"


def restart() -> str:
    """Start the gate anew where it runs; what went wrong, or "". systemd keeps its sockets."""
    if not Path("/run/systemd/system").exists() or not systemctl("is-active", SERVICE):
        return ""
    if systemctl("restart", SERVICE) and systemctl("is-active", SERVICE):
        return ""
    return f"{SERVICE} does not start"


def systemctl(verb: str, unit: str) -> bool:
    """Whether ``systemctl verb unit`` succeeds."""
    return (
        subprocess.run(
            ["systemctl", "--quiet", verb, unit], stdin=subprocess.DEVNULL, capture_output=True, check=False
        ).returncode
        == 0
    )


def switch(release: str, before: str) -> None:
    """Make `release` the current one; `InstallError` when it cannot do what `before` could."""
    step(f"switching from {before} to {release}" if before else f"using {release}")
    worked = [command for command in READING if before and not trouble_with(command)]
    link(CURRENT, Path(release))
    trouble = next(filter(None, map(trouble_with, worked)), "") or restart()
    if not trouble:
        return
    if before:
        link(CURRENT, Path(before))
        restart()
    else:
        CURRENT.unlink()
    shutil.rmtree(BASE / release, ignore_errors=True)
    kept = f"the machine is back at {before}" if before else "nothing is left installed"
    raise InstallError("install-failed", f"{release} does not work on this machine ({trouble}); {kept}")


def link(path: Path, target: Path) -> None:
    """Make `path` a symbolic link to `target`, in one step."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    new.symlink_to(target)
    new.replace(path)


def prune(keep: set[str]) -> list[str]:
    """Remove the releases that are not in `keep`; return their names."""
    removed = []
    for directory in sorted(BASE.iterdir()):
        if directory.is_dir() and not directory.is_symlink() and directory.name not in keep | {_UPLOAD}:
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory.name)
    return removed


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[-2:])

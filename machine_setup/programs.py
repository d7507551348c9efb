"""The machine's programs: found where they belong to the root that we work on, run with a time limit."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.errors import CommandFailedError

PROGRAMS_VARIABLE = "REDIACC_PROGRAMS"

# A service manager's or sudo's PATH may lack the administrators' directories.
SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class Finished:
    """A program that ended: its exit status and what it wrote, as text."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The line that says what went wrong: the first that is marked as an error, or else the last."""
        said = self.stderr if self.stderr.strip() else self.stdout
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        marked = (line for line in lines if line.startswith(("E: ", "Error: ")))
        return next(marked, lines[-1] if lines else "no message")


@dataclass(frozen=True)
class Programs:
    """Where the machine's programs are.

    A program acts on the machine that runs it. So below another root than ``/`` there are none, unless
    ``REDIACC_PROGRAMS`` names the directories to take them from, as tests do.
    """

    directories: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str] = os.environ) -> "Programs":
        """The programs that may be run for the machine below `root`."""
        if named := environ.get(PROGRAMS_VARIABLE):
            return cls(tuple(named.split(os.pathsep)))
        if root != Path("/"):
            return cls(())
        path = environ.get("PATH", "").split(os.pathsep)
        return cls(tuple(dict.fromkeys(directory for directory in (*path, *SYSTEM_DIRECTORIES) if directory)))

    @property
    def any(self) -> bool:
        """Whether programs may be run at all."""
        return bool(self.directories)

    def find(self, name: str) -> Path | None:
        """The program `name`, or None when the machine does not have it."""
        if not self.directories:
            return None
        found = shutil.which(name, path=os.pathsep.join(self.directories))
        return Path(found) if found else None

    def run(
        self, argv: Sequence[str], *, timeout: float = 60, environ: Mapping[str, str] | None = None
    ) -> Finished:
        """Run `argv` to its end, within `timeout` seconds, with `environ` added to its environment.

        The first word is a name or a path. Raises `CommandFailedError` when it cannot be started or does
        not end in time (it and its children are killed then); a failing exit status is the caller's.
        """
        program = argv[0] if "/" in argv[0] else self.find(argv[0])
        if program is None or not self.directories:
            raise CommandFailedError(f"{argv[0]} is not on this machine")
        environment = {**os.environ, **(environ or {}), "LC_ALL": "C"}
        environment["PATH"] = os.pathsep.join([*self.directories, environment.get("PATH", "")])
        try:
            process = subprocess.Popen(
                [str(program), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailedError(f"{argv[0]} cannot be started: {error.strerror}") from error
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise CommandFailedError(
                f"{in_short(argv)} did not end within {timeout:.0f} seconds",
                "A driver that hangs does this: look at dmesg",
            ) from error
        finally:
            _end(process)
        return Finished(
            tuple(argv), process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace")
        )

    def check(
        self, argv: Sequence[str], *, timeout: float = 60, environ: Mapping[str, str] | None = None
    ) -> Finished:
        """Run `argv` as `run` does. Raises `CommandFailedError` for a failing exit status too."""
        finished = self.run(argv, timeout=timeout, environ=environ)
        if finished.status:
            raise CommandFailedError(f"{in_short(argv)} failed ({finished.status}): {finished.complaint}")
        return finished


def in_short(argv: Sequence[str]) -> str:
    """The command line `argv` by its name and its first words, without options, for a sentence."""
    words = [word for word in argv[1:] if not word.startswith("-") and "=" not in word]
    return " ".join([Path(argv[0]).name, *words[:2]])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of `process` where it still runs, and collect it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

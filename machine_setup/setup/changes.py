"""What a set-up step may do to a machine: each change can show itself before it is made."""

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from machine_setup.programs import Programs, in_short
from spec.errors import CommandFailedError
from spec.files import replace_file, sync_directory


class Change(Protocol):
    """One change of the machine. Made twice, it leaves what it left the first time."""

    def __str__(self) -> str:
        """In one line, as a person reads it while it happens."""
        ...

    def difference(self) -> str:
        """Exactly what would change: a unified diff, or the command as it would run."""
        ...

    def apply(self) -> None:
        """Make the change. Raises `RediaccError` or `OSError`; the machine is then as it was, or half of a
        command's work is done that the same command completes."""
        ...


@dataclass(frozen=True)
class WriteFile:
    """Put `content` at `path`, in one step."""

    path: Path
    content: bytes
    mode: int = 0o644

    def __str__(self) -> str:
        return f"write {self.path}"

    def difference(self) -> str:
        """The unified diff from what is there."""
        return unified_diff(self.path, _lines(self.path), self.content.decode(errors="replace").splitlines())

    def apply(self) -> None:
        """Replace the file."""
        replace_file(self.path, self.content, self.mode)

    @property
    def is_needed(self) -> bool:
        """Whether the file differs from what it should hold."""
        try:
            return self.path.read_bytes() != self.content
        except OSError:
            return True


@dataclass(frozen=True)
class RemoveFile:
    """Remove the file at `path`, where it is."""

    path: Path

    def __str__(self) -> str:
        return f"remove {self.path}"

    def difference(self) -> str:
        """The unified diff to nothing."""
        return unified_diff(self.path, _lines(self.path), None)

    def apply(self) -> None:
        """Remove the file, durably."""
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)


@dataclass(frozen=True)
class RunProgram:
    """Run a program of the machine that changes it."""

    programs: Programs
    argv: Sequence[str]
    timeout: float = 60
    environ: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"run {in_short(self.argv)}"

    def difference(self) -> str:
        """The command line, as a shell would take it."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.environ.items()]
        return " ".join(["$", *settings, shlex.join(self.argv)])

    def apply(self) -> None:
        """Run it to its end."""
        self.programs.check(self.argv, timeout=self.timeout, environ=self.environ)


@dataclass(frozen=True)
class Download:
    """Put what `url` holds at `path`: a small text file that begins with `begins`."""

    url: str
    path: Path
    begins: bytes
    timeout: float = 30

    def __str__(self) -> str:
        return f"download {self.url}"

    def difference(self) -> str:
        """Where from and where to; what comes is not known before."""
        return f"$ download {self.url} to {self.path}"

    def apply(self) -> None:
        """Fetch and write it. Raises `CommandFailedError` when it does not come or is something else."""
        import http.client  # these take a tenth of a second, and few set-ups download anything
        import urllib.request

        if not self.url.startswith(("https://", "http://")):
            raise CommandFailedError(f"{self.url} is no address of the web")
        try:
            with urllib.request.urlopen(self.url, timeout=self.timeout) as answer:  # noqa: S310 - see above
                content = answer.read(1 << 20)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CommandFailedError(f"{self.url} cannot be fetched: {error}") from error
        if not content.startswith(self.begins):
            raise CommandFailedError(
                f"{self.url} does not hold what it should", "A proxy that answers by itself does this"
            )
        replace_file(self.path, content)


def unified_diff(path: Path, old: list[str] | None, new: list[str] | None) -> str:
    """The unified diff between two contents of `path`; None is no file."""
    return "\n".join(
        difflib.unified_diff(
            old or [],
            new or [],
            "/dev/null" if old is None else f"a{path}",
            "/dev/null" if new is None else f"b{path}",
            lineterm="",
        )
    )


def _lines(path: Path) -> list[str] | None:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return None

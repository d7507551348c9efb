"""The last few states of each file, kept beside it: what `renet gpu restore` brings back.

A state is kept before it becomes the file, so the newest one is what the file says. Copies, not hard
links: whatever damages the file in place must not reach them.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grants_cli.documents import Kind
from spec.files import replace_file

KEEP = 5
_NAME = re.compile(r"(grants|repositories)\.([0-9]{1,12})\.json")


@dataclass(frozen=True)
class Generation:
    """One state that was kept."""

    number: int
    path: Path


def kept(directory: Path, kind: Kind) -> list[Generation]:
    """The kept states of `kind`, newest first."""
    return sorted(
        (generation for name, generation in _all(directory) if name == kind.value),
        key=lambda generation: generation.number,
        reverse=True,
    )


def next_number(directory: Path) -> int:
    """The number of the state that is written next: one counter for both files."""
    return max((generation.number for _, generation in _all(directory)), default=0) + 1


def keep(directory: Path, kind: Kind, number: int, content: bytes) -> Generation:
    """Keep `content` as the state `number`; raises `OSError`, and nothing is kept then."""
    path = directory / f"{kind.value}.{number}.json"
    replace_file(path, content, 0o600)
    return Generation(number, path)


def prune(directory: Path, kind: Kind) -> None:
    """Remove all but the newest few states, as far as that can be done."""
    for generation in kept(directory, kind)[KEEP:]:
        drop(generation)


def make_room(directory: Path) -> bool:
    """Remove all but the newest state of each file; whether that freed anything."""
    older = [generation for kind in Kind for generation in kept(directory, kind)[1:]]
    for generation in older:
        drop(generation)
    return bool(older)


def drop(generation: Generation) -> None:
    """Remove a state, as far as that can be done."""
    with contextlib.suppress(OSError):
        generation.path.unlink()


def _all(directory: Path) -> Iterator[tuple[str, Generation]]:
    if directory.is_dir():
        for path in directory.iterdir():
            if match := _NAME.fullmatch(path.name):
                yield match[1], Generation(int(match[2]), path)

"""The command blocks of the documents: what a reader would type, so that tests can type it.

A block is fenced as ``sh``. Before the first one, a page says where its commands run, in a comment:
``<!-- commands run: engine -->``; a later comment changes that. The places are

* ``engine``: as root on a machine with the gate, Docker, and the repositories ``gpu-a`` and ``team-b``;
* ``lab``: as root on a bare Debian machine with systemd and two render nodes;
* ``container``: as root in such a clone, with a base image and wheels, on a machine with a repository gpu-a;
* ``checkout``: as root in a clone of this repository;
* ``operator``: at a desk, in such a clone, whose ssh reaches such a bare machine as lab.example.org, with
  wheels for it.

All blocks of one page and place are typed into one shell. A line that ends in ``# refused`` must fail.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("engine", "lab", "container", "checkout", "operator")
_PLACE = re.compile(r"<!-- commands run: (\w+) -->")
_FENCE = re.compile(r"\s*```(\w*)")
_REFUSED = re.compile(r"(?P<command>.*\S)\s+# refused\b.*")


@dataclass(frozen=True)
class Block:
    """Commands as they stand on a page."""

    page: str
    line: int
    language: str
    place: str
    text: str


def pages() -> list[Path]:
    """Every document of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks() -> Iterator[Block]:
    """Every fenced block of every page, in order."""
    for path in pages():
        yield from read_blocks(str(path.relative_to(ROOT)), path.read_text())


def read_blocks(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of one page."""
    place, opened, language, lines = "", 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened and line.strip() == "```":
            yield Block(page, opened, language, place, "\n".join(lines))
            opened = 0
        elif opened:
            lines.append(line)
        elif fence:
            opened, language, lines = number, fence[1], []
        elif found := _PLACE.search(line):
            place = found[1]


def script(page: str, place: str) -> str:
    """What a reader of `page` types in `place`, as one bash script that stops where something goes wrong."""
    parts = ["set -euo pipefail"]
    for block in blocks():
        if (block.page, block.place, block.language) == (page, place, "sh"):
            parts.append(f"echo {shlex.quote(f'── {page}, line {block.line}')} >&2")
            parts.extend(_typed(line) for line in block.text.splitlines())
    return "\n".join(parts) + "\n"


def commands(page: str, place: str) -> list[str]:
    """What a reader of `page` types in `place`, without the remarks."""
    typed = [block for block in blocks() if (block.page, block.place, block.language) == (page, place, "sh")]
    return [line.partition(" # ")[0].rstrip() for block in typed for line in block.text.splitlines()]


def pages_of(place: str) -> list[str]:
    """The pages that have commands for `place`."""
    return sorted({block.page for block in blocks() if (block.place, block.language) == (place, "sh")})


def _typed(line: str) -> str:
    refused = _REFUSED.fullmatch(line)
    if not refused:
        return line
    command = refused["command"]
    return f"if {command}; then echo {shlex.quote(f'not refused: {command}')} >&2; exit 1; fi"

"""Measures as tables, and whether they meet what is asked of them."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """A ratio within one run, and the most that it may be."""

    what: str
    ratio: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit


@dataclass
class Report:
    """What has been measured so far."""

    lines: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def say(self, line: str = "") -> None:
        """Add a line, and show it."""
        self.lines.append(line)
        print(line, flush=True)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table in Markdown, its first column to the left and the others to the right."""
        widths = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]

        def line(cells: Sequence[str]) -> str:
            first, *rest = zip(cells, widths, strict=True)
            return f"| {first[0]:<{first[1]}} | {' | '.join(f'{cell:>{width}}' for cell, width in rest)} |"

        self.say()
        self.say(f"### {title}")
        self.say()
        self.say(line(columns))
        self.say(line(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]))
        for row in rows:
            self.say(line(row))

    def target(self, what: str, ratio: float, limit: float) -> None:
        """Add a ratio that has a limit."""
        self.targets.append(Target(what, ratio, limit))

    def finish(self) -> None:
        """Add the table of all targets."""
        rows = [
            [target.what, f"{target.ratio:.2f}", f"{target.limit:.2f}", "yes" if target.met else "no"]
            for target in self.targets
        ]
        self.table("Targets", ["ratio within this run", "measured", "at most", "met"], rows)


def machine() -> str:
    """The machine in a sentence: what the figures were measured on."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} CPUs ({model}), Linux {platform.release()}, Python {platform.python_version()}; "
        f"load before the run {load}"
    )


def microseconds(seconds: float) -> str:
    """A time for a table."""
    return f"{seconds * 1e6:,.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:,.1f} ms"

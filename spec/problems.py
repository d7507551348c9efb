"""What is wrong with a spec, precisely enough to mend it."""

from dataclasses import dataclass, replace
from pathlib import Path

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a spec does not count.

    `code` is a word for scripts, `found` what the file has, `rule` what the specification says. `where`
    leads to the value within the file, as keys and indexes; `line` counts from 1, and 0 means unknown.
    """

    code: str
    found: str
    rule: str
    where: Where = ()
    line: int = 0
    file: Path | None = None

    def at(self, file: Path) -> "Problem":
        """The same problem, of `file`."""
        return replace(self, file=file)

    @property
    def place(self) -> str:
        """`where` as text: ``devices[0].containerEdits.env[1]``; empty for the file as a whole."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.where).lstrip(
            "."
        )

    def __str__(self) -> str:
        position = f"{self.file or '<spec>'}" + (f":{self.line}" if self.line else "")
        place = f"{self.place}: " if self.where else ""
        return (
            f"{position}: {place}{self.found}; {self.rule}"
            if self.rule
            else f"{position}: {place}{self.found}"
        )

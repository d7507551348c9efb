"""One command for a machine, as data: its words, and the line that starts it there."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

#: The oldest `renet` whose answers this `rdc` understands.
OLDEST_RENET = "0.1.0"

# No quote, backslash, dollar, exclamation mark or newline within the single quotes: sh, bash, zsh, fish and
# csh all hand it to Python as it is. -I -S: nothing of the login's own environment is imported.
_START = "python3 -IS -c 'import base64,sys;exec(base64.b64decode(sys.argv[1]))'"


@dataclass(frozen=True)
class Order:
    """A command for a machine.

    `program` is ``renet``, ``python``, or the words that start another program. `changes` says whether the
    command changes something there, and `find_out` how an operator learns whether it did, in case the
    connection ends before the answer comes.
    """

    argv: tuple[str, ...]
    program: str | tuple[str, ...] = "renet"
    changes: bool = False
    find_out: str = ""

    def encoded(self, program: str | Sequence[str] | None = None) -> str:
        """The order as the launcher reads it: base64, which no shell touches."""
        document = {"argv": self.argv, "program": program or self.program, "oldest": OLDEST_RENET}
        return base64.b64encode(json.dumps(document).encode()).decode()

    def shell_line(self) -> str:
        """The line for the login shell of the machine, whichever shell that is."""
        return f"{_START} {_launcher()} {self.encoded()}"


def launcher_source() -> str:
    """The launcher as text."""
    return resources.files("grants_cli.remote").joinpath("launcher.py").read_text(encoding="utf-8")


@cache
def _launcher() -> str:
    return base64.b64encode(launcher_source().encode()).decode()

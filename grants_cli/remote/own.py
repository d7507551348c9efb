"""Starting our own programs as child processes: those of this very installation."""

import sys
from pathlib import Path


def program(name: str, module: str) -> list[str]:
    """The words that start `name`: the script beside this Python, else `module` of this source tree."""
    script = Path(sys.executable).with_name(name)
    if script.exists():
        return [str(script)]
    source = str(Path(__file__).resolve().parents[2])
    # -P: a module of that name in the current directory is not ours, and this may run as root.
    start = f"import sys; sys.path.insert(0, {source!r}); from {module} import main; main()"
    return [sys.executable, "-P", "-c", start]

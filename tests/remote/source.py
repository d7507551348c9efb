"""This source tree as another version, for upgrades."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEXT = "9.0.0"


def next_version(directory: Path) -> Path:
    """A copy of the source tree in `directory` that calls itself version `NEXT`."""
    tree = directory / "source"
    ignore = shutil.ignore_patterns("__pycache__", ".*", "tests", "docs", "build", "dist")
    shutil.copytree(ROOT, tree, ignore=ignore)
    version = tree / "spec/__init__.py"
    lines = version.read_text().splitlines()
    changed = (f'__version__ = "{NEXT}"' if "__version__ =" in line else line for line in lines)
    version.write_text("\n".join(changed) + "\n")
    return tree

"""The reference library's recorded verdicts (tests/data)."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file, in its order."""
    loaded: dict[str, list[dict[str, Any]]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return loaded["cases"]

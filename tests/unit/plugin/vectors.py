"""The recorded reference data under ``tests/data``, read once."""

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"


@cache
def load(name: str) -> dict[str, Any]:
    """The whole of ``tests/data/<name>.json``."""
    return json.loads((DATA / f"{name}.json").read_text())  # type: ignore[no-any-return]


@cache
def client_requests() -> list[dict[str, Any]]:
    """What real clients sent: one command an entry."""
    return [json.loads(line) for line in (DATA / "client-requests.jsonl").read_text().splitlines()]


def body(case: dict[str, Any]) -> bytes:
    """The bytes of a case's body."""
    if "body_b64" in case:
        return base64.b64decode(case["body_b64"])
    whole = b"".join(base64.b64decode(part["b64"]) * part["repeat"] for part in case["body_parts"])
    if "body_sha256" in case:
        assert hashlib.sha256(whole).hexdigest() == case["body_sha256"]
    return whole


def identifiers(cases: list[dict[str, Any]]) -> list[str]:
    """Their ids, for pytest."""
    return [case["id"] for case in cases]

"""Headers, framing and sizes: whatever dockerd shows of a dangerous body, and where it hides it, it is
denied.
"""

from typing import Any

import pytest

from plugin.decide import Request
from tests.unit.plugin import vectors
from tests.unit.plugin.machine import ask_gate, context

CASES = vectors.load("go-content")["cases"]
# By engine: master, and what 28.5.2 did otherwise.
OBSERVED = [(case["id"], case) for case in CASES] + [
    (f"{case['id']}-28.5.2", {**case, **case["v28_5_2"]}) for case in CASES if "v28_5_2" in case
]
# Nothing in these asks for anything: an object that is refused for itself, and bodies of endpoints that
# need none.
HARMLESS = {"ep-auth", "ep-auth-versioned", "ep-build-json", "len-short-drops-trailer"}


@pytest.mark.parametrize("case", [case for _, case in OBSERVED], ids=[name for name, _ in OBSERVED])
def test_what_the_handler_obeys_is_denied(case: dict[str, Any]) -> None:
    if not case["authz_called"]:
        return  # dockerd refuses it by itself
    shown = vectors.body(case)[: case["plugin_body_bytes"]] if case["body_sent_to_plugin"] else None
    request = Request(case["method"], case["target"], shown, case.get("plugin_sees_headers", {}))
    decision = ask_gate(request, context())
    assert decision.allow == (case["id"] in HARMLESS), decision.denial
    if case["handler_accepts_json"] and shown is None:
        assert not decision.allow


def test_the_hidden_ones_are_among_them() -> None:
    hidden = {
        case["id"] for _, case in OBSERVED if case["handler_accepts_json"] and not case["body_sent_to_plugin"]
    }
    assert {"size-1mib", "size-1mib-chunked", "ep-service-bad-fragment"} <= hidden


def test_a_volume_may_be_made_without_a_body_where_there_is_none() -> None:
    def create(body: bytes | None, **headers: str) -> bool:
        return ask_gate(Request("POST", "/volumes/create", body, headers), context()).allow

    assert create(None, **{"Content-Length": "0"})
    assert not create(None)
    assert not create(None, **{"Content-Length": "1048576"})
    assert not create(b" ", **{"Content-Length": "0"})


@pytest.mark.parametrize(
    "target", ["/containers/create", "/containers/x/exec", "/containers/x/update", "/networks/create"]
)
def test_nothing_else_may(target: str) -> None:
    for body in (None, b""):
        denial = ask_gate(Request("POST", target, body, {"Content-Length": "0"}), context()).denial
        assert denial is not None
        assert "missing or hidden" in denial.message

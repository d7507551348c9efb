"""Reading dockerd's messages: everything that is not exactly one is refused."""

import base64
import json

import pytest

from plugin.decide import Request
from plugin.denial import DenialError
from plugin.message import STEP, parse


def test_a_request_with_a_body() -> None:
    message = {
        "RequestMethod": "POST",
        "RequestUri": "/v1.51/containers/create",
        "RequestBody": base64.b64encode(b"{}").decode(),
    }
    assert parse(json.dumps(message).encode()) == Request("POST", "/v1.51/containers/create", b"{}")


def test_the_older_engines_spelling_and_no_body() -> None:
    message = b'{"RequestMethod":"GET","RequestURI":"/_ping"}'
    assert parse(message) == Request("GET", "/_ping", None)


def large(encoded: bytes) -> bytes:
    """The message about a request whose body is `encoded` in base64."""
    return b'{"RequestMethod":"POST","RequestUri":"/x","RequestBody":"%b"}' % encoded


@pytest.mark.parametrize("length", [STEP // 4 * 3, STEP // 4 * 3 + 1, 300_000])
def test_a_large_body_is_read_in_steps_to_the_same_bytes(length: int) -> None:
    body = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    pauses: list[None] = []
    assert parse(large(base64.b64encode(body)), lambda: pauses.append(None)).body == body
    steps = -(-len(base64.b64encode(body)) // STEP)
    assert len(pauses) == (steps + 1 if steps > 1 else 0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"RequestMethod"',
        b"\xff\xfe{\x00}\x00",
        b'{"RequestMethod":"GET"}',
        b'{"RequestMethod":1,"RequestUri":"/_ping"}',
        b'{"RequestMethod":"GET","RequestUri":null}',
        b'{"RequestMethod":"POST","RequestUri":"/x","RequestBody":"*"}',
        b'{"RequestMethod":"POST","RequestUri":"/x","RequestBody":7}',
        b"[" * 200_000,
        large(b"AA==".rjust(STEP, b"A") + b"AAAA"),
        large(b"*".rjust(STEP + 4, b"A")),
        large(b"A" * (STEP + 1)),
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(DenialError) as refused:
        parse(message)
    assert refused.value.denial.rule == "unreadable-request"

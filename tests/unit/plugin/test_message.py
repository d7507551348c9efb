"""Reading dockerd's messages: everything that is not exactly one is refused."""

import base64
import json

import pytest

from plugin.decide import Request
from plugin.denial import DenialError
from plugin.message import parse


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
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(DenialError) as refused:
        parse(message)
    assert refused.value.denial.rule == "unreadable-request"

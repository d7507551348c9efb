"""The shape of HTTP that dockerd sends is recognised; everything else is left to a whole parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.wire import HEAD_LIMIT, REQUEST, Call, head_ends, read_call, reply

HEAD = (
    b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\n"
    b"Host: %2Frun%2Fdocker%2Fplugins%2Frediacc-a.sock\r\n"
    b"User-Agent: Go-http-client/1.1\r\n"
    b"Content-Length: 5\r\n"
    b"Accept: application/vnd.docker.plugins.v1.2+json\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)


def test_dockerds_call_is_recognised() -> None:
    assert read_call(HEAD + b"12345") == Call(REQUEST, 5, len(HEAD))


@pytest.mark.parametrize("route", [b"Plugin.Activate", b"AuthZPlugin.AuthZReq", b"AuthZPlugin.AuthZRes"])
def test_each_of_the_three_routes_is_recognised(route: bytes) -> None:
    call = read_call(b"POST /" + route + b" HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    assert call is not None
    assert (call.route, call.length) == (route, 0)


UNUSUAL = {
    "another method": HEAD.replace(b"POST", b"GET"),
    "another path": HEAD.replace(b"AuthZReq", b"AuthZReq/"),
    "a query": HEAD.replace(b"AuthZReq ", b"AuthZReq?a=b "),
    "an absolute target": HEAD.replace(b" /Auth", b" http://x/Auth"),
    "HTTP/1.0": HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no length": HEAD.replace(b"Content-Length: 5\r\n", b""),
    "two lengths": HEAD.replace(b"Host: ", b"Content-Length: 0\r\nHost: "),
    "two equal lengths": HEAD.replace(b"Host: ", b"Content-Length: 5\r\nHost: "),
    "two lengths in two cases": HEAD.replace(b"Host: ", b"CONTENT-length: 0\r\nHost: "),
    "two lengths, the other after it": HEAD.replace(b"Accept: ", b"content-length: 0\r\nAccept: "),
    "a space before the colon": HEAD.replace(b"Content-Length:", b"Content-Length :"),
    "another length with a space before the colon": HEAD.replace(b"Host:", b"Content-Length : 0\r\nHost:"),
    "a signed length": HEAD.replace(b": 5", b": +5"),
    "a hexadecimal length": HEAD.replace(b": 5", b": 0x5"),
    "a list of lengths": HEAD.replace(b": 5", b": 5, 5"),
    "a huge length": HEAD.replace(b": 5", b": 5555555555"),
    "a transfer coding": HEAD.replace(b"Host:", b"Transfer-Encoding: chunked\r\nHost:"),
    "a transfer coding after the length": HEAD.replace(b"Accept:", b"TRANSFER-encoding: chunked\r\nAccept:"),
    "a folded line": HEAD.replace(b"Accept: ", b"X: y\r\n Content-Length: 0\r\nAccept: "),
    "a bare line feed": HEAD.replace(b"gzip", b"gzip\nContent-Length: 0"),
    "a bare carriage return": HEAD.replace(b"gzip", b"gzip\rContent-Length: 0"),
    "a null": HEAD.replace(b"gzip", b"gz\0ip"),
    "an expectation": HEAD.replace(b"Host:", b"Expect: 100-continue\r\nHost:"),
    "a connection option": HEAD.replace(b"Host:", b"Connection: close\r\nHost:"),
    "an upgrade": HEAD.replace(b"Host:", b"Upgrade: h2c\r\nHost:"),
    "an empty line first": b"\r\n" + HEAD,
    "no end": HEAD[:-2],
    "a head without an end": b"A" * (HEAD_LIMIT + 1),
    "a head that is too long": HEAD.replace(b"gzip", b"g" * HEAD_LIMIT),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("data", UNUSUAL.values(), ids=UNUSUAL)
def test_everything_else_is_left_to_the_parser(data: bytes) -> None:
    assert read_call(data) is None


@given(st.binary(max_size=200), st.integers(0, len(HEAD)))
def test_no_byte_that_is_slipped_in_moves_where_the_message_begins(noise: bytes, place: int) -> None:
    data = HEAD[:place] + noise + HEAD[place:]
    call = read_call(data)
    if call is not None:
        head = data[: call.start]
        assert head.endswith(b"\r\n\r\n")
        assert head.count(b"\r\n\r\n") == 1
        assert head.lower().count(b"content-length:") == 1 or b": " in noise
        assert b"\n" not in head.replace(b"\r\n", b"")


def test_a_head_is_whole_at_its_end_or_when_it_is_too_long() -> None:
    assert head_ends(HEAD)
    assert not head_ends(HEAD[:-1])
    assert head_ends(b"x" * (HEAD_LIMIT + 1))


def test_a_reply_says_how_long_it_is_and_whether_it_is_the_last() -> None:
    assert reply(b"{}", last=False) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert b"\r\nConnection: close\r\n" in reply(b"{}", last=True)

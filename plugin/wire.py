"""dockerd's calls on the wire: the one shape of HTTP that it sends, recognised at a glance.

The shape is strict: one of the protocol's three POST requests in HTTP/1.1, each header on one line, exactly
one Content-Length, no transfer coding and nothing that changes how the connection goes on. What has another
shape is not judged here: it goes to gunicorn's parser, which knows the rest of HTTP and its dangers.
"""

import re
from functools import lru_cache
from typing import NamedTuple

#: Bytes of a head that is looked at; dockerd's have 200.
HEAD_LIMIT = 8 * 1024
#: Bytes of a message that is judged: 4 MiB of body, which dockerd allows, have 5.6 MB in base64.
MESSAGE_LIMIT = 6 * 1024 * 1024

ACTIVATE = b"Plugin.Activate"
REQUEST = b"AuthZPlugin.AuthZReq"
RESPONSE = b"AuthZPlugin.AuthZRes"

_END = b"\r\n\r\n"
# Not possessive as a whole: Python 3.11.2, which is Debian 12's, then never matches. A line can be read in
# one way only, so that going back is short.
# A header that decides where the message ends or what becomes of the connection may not be among the others.
_OTHER = (
    rb"(?:(?!(?i:content-length|transfer-encoding|connection|keep-alive|expect|upgrade|te|trailer)[ :])"
    rb"[!#-'*+.^_`|~0-9A-Za-z-]++:[\x20-\x7e]*+\r\n)*"
)
_HEAD = re.compile(
    rb"POST /(Plugin\.Activate|AuthZPlugin\.AuthZReq|AuthZPlugin\.AuthZRes) HTTP/1\.1\r\n"
    + _OTHER
    + rb"(?i:content-length): ([0-9]{1,9})\r\n"
    + _OTHER
)


class Call(NamedTuple):
    """One call: which of the three routes, the length of its body, and where the body begins."""

    route: bytes
    length: int
    start: int


def head_ends(data: bytes) -> bool:
    """Whether `data` holds a whole head, or more than one may have."""
    return _END in data or len(data) > HEAD_LIMIT


def read_call(data: bytes) -> Call | None:
    """The call that begins `data`; None where its head is not of dockerd's shape."""
    end = data.find(_END)
    match = _HEAD.fullmatch(data, 0, end + 2) if 0 <= end <= HEAD_LIMIT else None
    if match is None:
        return None
    return Call(match[1], int(match[2]), end + 4)


@lru_cache(maxsize=64)
def reply(body: bytes, *, last: bool) -> bytes:
    """The HTTP reply with `body`; `last` says that the connection ends with it."""
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        + (b"Connection: close\r\n" if last else b"")
        + b"Content-Length: %d\r\n\r\n" % len(body)
        + body
    )

"""The authorization protocol's messages: the bytes that dockerd sends, as a request to judge."""

import binascii
import json
from collections.abc import Callable

from plugin.decide import Request
from plugin.denial import Denial, DenialError

#: Characters of base64 that are decoded at once.
STEP = 128 * 1024


def parse(message: bytes, pause: Callable[[], None] = lambda: None) -> Request:
    """Read an ``AuthZPlugin.AuthZReq`` message. `pause` is called after each step of reading a large one.

    The target is ``RequestUri`` or ``RequestURI``, by engine version. The body is None where dockerd did
    not show one. Raises `DenialError` for anything else: after a dropped connection dockerd repeats its
    call with an empty body, and that must not pass for a request without content.
    """
    try:
        fields = json.loads(message.decode())
        method = fields["RequestMethod"]
        target = fields["RequestUri"] if "RequestUri" in fields else fields["RequestURI"]
        encoded = fields.get("RequestBody")
        if not isinstance(method, str) or not isinstance(target, str):
            raise _unreadable("the method or the target is no text")
        headers = fields.get("RequestHeaders") or {}
        user = fields.get("User") or ""
        if not isinstance(headers, dict) or not isinstance(user, str):
            raise _unreadable("the headers or the user are not what dockerd sends")
        body = None if encoded is None else _decode(encoded, pause)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error
    return Request(method, target, body, headers, user)


def _decode(encoded: str, pause: Callable[[], None]) -> bytes:
    if len(encoded) <= STEP:
        return binascii.a2b_base64(encoded, strict_mode=True)
    parts = []
    for start in range(0, len(encoded), STEP):
        pause()
        parts.append(binascii.a2b_base64(encoded[start : start + STEP], strict_mode=True))
    if any(len(part) < STEP // 4 * 3 for part in parts[:-1]):
        raise ValueError("the body ends before its base64 does")
    pause()
    return b"".join(parts)


def _unreadable(why: str) -> DenialError:
    return DenialError(
        Denial(
            "unreadable-request",
            f"dockerd's message to the gate cannot be read ({why})",
            "Send the request again; if it is refused again, tell the operator of this machine",
        )
    )

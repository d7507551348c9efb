"""From a request's bytes to its JSON value, exactly as Go reads it, or a refusal.

Go's ``encoding/json`` and Python's ``json`` differ in what they take for JSON and in what they make of it.
What only one of them accepts, or both read differently, is refused here, so what is returned means the same
to both:

* the bytes are UTF-8 (Python guesses UTF-16 and UTF-32; Go puts U+FFFD in place of invalid bytes), with no
  BOM;
* one value and nothing behind it (dockerd accepts what begins with ``}`` or ``]``);
* no NaN or Infinity, no lone surrogate, no depth or number that either of them gives up on;
* no key twice in one object (Go merges structs and maps and reuses the elements of lists);
* every key in the spelling of the API and every value of its field's type (`plugin.bodies`).
"""

import json
from typing import NoReturn

from plugin.denial import unreadable
from plugin.fields import Kind, count_colons

JsonObject = dict[str, object]


def decode(body: bytes, kind: Kind) -> JsonObject:
    """The object in `body`, which is of `kind`.

    ``null`` for the whole body is the empty object, as in Go. Raises `DenialError` with the rule
    ``unreadable-request`` or ``unknown-field``.
    """
    text = _text(body)
    value = read_json(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise unreadable("its body is not a JSON object")
    # Every colon of a JSON text stands behind a key or in a string. A repeated key replaces an entry, so
    # fewer are left to account for. Only an escaped colon could make up for that; `read_json` looks at keys
    # then.
    if kind.check(value) != count_colons(text) and not _has_escaped_colon(text):
        if len(text) < _WORTH_A_NAME:
            read_json(text, careful=True)  # raises, and names the key
        raise unreadable("a key stands twice in one object")
    return value


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeError:
        raise unreadable("its body is not valid UTF-8") from None


def _has_escaped_colon(text: str) -> bool:
    return "\\" in text and ("\\u003a" in text or "\\u003A" in text)


def read_json(text: str, careful: bool = False) -> object:
    """The one JSON value in `text`, if Go and Python read the same there.

    A key that stands twice is sure to be found when `careful`, or when a colon is escaped. Raises
    `DenialError`.
    """
    decoder = _CAREFUL if careful or _has_escaped_colon(text) else _QUICK
    try:
        value: object = decoder.decode(text)
        if "\\" in text and ("\\ud" in text or "\\uD" in text):
            # A pair of escapes is one character to both; a lone one is U+FFFD to Go.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise unreadable("its body holds half of a surrogate pair") from None
    except RecursionError:
        raise unreadable("its body is nested too deeply") from None
    except ValueError:
        raise unreadable("its body is not one JSON value") from None
    return value


def _object(pairs: list[tuple[str, object]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise unreadable("a key stands twice in one object", name[:100])
            seen.add(name)
    return value


def _constant(name: str) -> NoReturn:
    raise unreadable(f"its body holds {name}")


# Reading a large body twice for the sake of a better message would be a gift to an attacker.
_WORTH_A_NAME = 65_536

_QUICK = json.JSONDecoder(parse_constant=_constant)
_CAREFUL = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)

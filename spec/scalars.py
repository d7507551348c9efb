"""What a YAML scalar means to the engine: YAML 1.1 as Go's yaml.v2 resolves it.

The CDI reference library reads specs with that package (by way of sigs.k8s.io/yaml), for ``.json`` files
too. PyYAML's own resolver differs where it matters: it takes ``1:30`` for 90, ``y`` for text and ``1e3``
for text. The rules here are those of yaml.v2's ``resolve.go``.
"""

import base64
import binascii
import math
import re
import struct

Value = str | int | float | bool | None

_CORE = "tag:yaml.org,2002:"
_WORDS: dict[str, Value] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)
_FIRST = frozenset("+-0123456789.yYnNtTfFoO~")


def resolve(text: str, tag: str | None, plain: bool) -> Value:
    """The value of a scalar with this `text`, explicit `tag` and (un)quotedness.

    Raises `ValueError` when the tag asks for a type that the text is not.
    """
    if tag is None:
        return _untagged(text) if plain else text
    if not tag.startswith(_CORE):
        return text
    return _tagged(text, tag.removeprefix(_CORE))


def _untagged(text: str) -> Value:
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "yYnNtTfFoO~":
        return text
    if text[0] == ".":
        return _float(text)
    return _number(text.replace("_", ""), text)


def _number(digits: str, text: str) -> Value:
    if _INTEGER.fullmatch(digits):
        value = _integer(digits)
        # Go tries a signed and then, for unsigned digits, an unsigned integer of 64 bits.
        if -(2**63) <= value < 2**63 or (digits[0] not in "+-" and value < 2**64):
            return value
    value_or_text = _float(digits)
    return text if isinstance(value_or_text, str) else value_or_text


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbBoO":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _float(text: str) -> float | str:
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    return text if math.isinf(value) else value


def _tagged(text: str, kind: str) -> Value:
    match kind:
        case "str":
            return text
        case "binary":
            try:
                return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode(
                    "utf-8", "replace"
                )
            except binascii.Error as error:
                raise ValueError("is no base64") from error
        case "timestamp":
            if _TIMESTAMP.fullmatch(text):
                return text
        case "int" | "float" | "bool" | "null":
            value = _untagged(text)
            if kind == "float" and type(value) is int:
                return float(value)
            if type(value) is {"int": int, "float": float, "bool": bool, "null": type(None)}[kind]:
                return value
        case _:
            return text
    raise ValueError(f"is no !!{kind}")


def as_text(value: Value) -> str:
    """The text that the engine makes of `value` where a field holds text; null becomes empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _float_as_text(value)


def _float_as_text(value: float) -> str:
    """As Go's ``strconv.FormatFloat(value, 'g', -1, 32)``, which sigs.k8s.io/yaml calls."""
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isnan(single):
        return "NaN"
    if math.isinf(single):
        return "+Inf" if single > 0 else "-Inf"
    if single == 0:
        return "-0" if math.copysign(1, single) < 0 else "0"
    for precision in range(9):
        shortest = f"{single:.{precision}e}"
        if struct.pack("f", float(shortest)) == struct.pack("f", single):
            break
    mantissa, _, exponent_text = shortest.partition("e")
    exponent = int(exponent_text)
    if exponent < -4 or exponent >= 6:
        return f"{mantissa}e{exponent:+03d}"
    return _plain_digits(mantissa, exponent)


def _plain_digits(mantissa: str, exponent: int) -> str:
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"

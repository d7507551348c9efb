"""Unquoted scalars mean to us what they mean to the engine: yaml.v2's values, as Go writes them as text."""

import pytest

from spec.scalars import as_text, resolve


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("", ""),
        ("~", ""),
        ("NULL", ""),
        ("nUll", "nUll"),
        ("On", "true"),
        ("oN", "oN"),
        ("n", "false"),
        ("0", "0"),
        ("+7", "7"),
        ("-010", "-8"),
        ("0b11", "3"),
        ("0o17", "15"),
        ("0x_1F", "31"),
        ("1_000", "1000"),
        ("1__0", "10"),
        ("_1", "_1"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744e+19"),
        ("-9223372036854775809", "-9.223372e+18"),
        ("1e999", "1e999"),
        ("-1e999", "-1e999"),
        ("1e39", "+Inf"),
        ("-1e39", "-Inf"),
        (".inf", "+Inf"),
        ("-.INF", "-Inf"),
        (".NaN", "NaN"),
        ("2.50", "2.5"),
        ("1.", "1"),
        (".5", "0.5"),
        ("-0.0", "-0"),
        ("0.0", "0"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("100000.0", "100000"),
        ("1000000.0", "1e+06"),
        ("123456.7", "123456.7"),
        ("16777217.0", "1.6777216e+07"),
        ("0.1", "0.1"),
        ("1:30", "1:30"),
        ("2024-05-06", "2024-05-06"),
        ("0x", "0x"),
        ("1e", "1e"),
        ("+", "+"),
    ],
)
def test_unquoted(text: str, becomes: str) -> None:
    assert as_text(resolve(text, None, plain=True)) == becomes


def test_quotes_keep_text_as_it_is() -> None:
    for text in ("0", "y", "~", "1e3", ""):
        assert resolve(text, None, plain=False) == text


CORE = "tag:yaml.org,2002:"


@pytest.mark.parametrize(
    ("tag", "text", "becomes"),
    [
        ("str", "010", "010"),
        ("int", "010", "8"),
        ("float", "3", "3"),
        ("bool", "off", "false"),
        ("null", "~", ""),
        ("binary", "YQ==", "a"),
        ("timestamp", "2024-1-2", "2024-1-2"),
        ("set", "5", "5"),
    ],
)
def test_a_tag_decides(tag: str, text: str, becomes: str) -> None:
    assert as_text(resolve(text, CORE + tag, plain=False)) == becomes


def test_a_tag_of_ones_own_makes_text() -> None:
    assert resolve("010", "!mine", plain=True) == "010"


@pytest.mark.parametrize(
    ("tag", "text"),
    [("int", "a"), ("int", "1.5"), ("bool", "1"), ("null", "x"), ("binary", "?"), ("timestamp", "now")],
)
def test_text_that_its_tag_does_not_allow_is_refused(tag: str, text: str) -> None:
    with pytest.raises(ValueError, match="is no "):
        resolve(text, CORE + tag, plain=False)

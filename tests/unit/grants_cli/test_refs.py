"""A repository's name is name[:tag], and its slug is a file name that no other ref has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grants_cli.refs import LABEL, Ref
from spec.errors import InvalidNameError

REFS = st.builds(
    lambda name, tag: f"{name}:{tag}" if tag else name,
    st.from_regex(LABEL, fullmatch=True),
    st.from_regex(LABEL, fullmatch=True) | st.just(""),
)


@pytest.mark.parametrize(
    ("text", "slug"), [("gpu-a", "gpu-a"), ("gpu-a:test", "gpu-a.test"), ("0", "0"), ("a" * 63, "a" * 63)]
)
def test_a_name_and_its_slug(text: str, slug: str) -> None:
    ref = Ref.parse(text)
    assert str(ref) == text
    assert ref.slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "a:",
        ":a",
        "A",
        "a.b",
        "a_b",
        "-a",
        "a-",
        "a:b:c",
        "a/b",
        "../a",
        "a\n",
        "ä",
        "a" * 64,
        "a:" + "b" * 64,
        "a@m",
    ],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidNameError):
        Ref.parse(text)


@given(REFS, REFS)
def test_no_two_refs_share_a_slug(one: str, other: str) -> None:
    assert (Ref.parse(one).slug == Ref.parse(other).slug) == (one == other)

"""How an operator names a repository and a machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grants_cli.refs import Ref
from grants_cli.remote.machines import check_name
from grants_cli.remote.target import Target
from spec.errors import InvalidNameError

LONGEST = "a" * 63


@pytest.mark.parametrize(
    ("text", "name", "tag", "machine"),
    [
        ("gpu-a", "gpu-a", "", ""),
        ("gpu-a:test", "gpu-a", "test", ""),
        ("gpu-a@lab", "gpu-a", "", "lab"),
        ("gpu-a:test@lab-2", "gpu-a", "test", "lab-2"),
        (f"{LONGEST}:{LONGEST}@{LONGEST}", LONGEST, LONGEST, LONGEST),
    ],
)
def test_a_target_is_name_tag_machine(text: str, name: str, tag: str, machine: str) -> None:
    target = Target.parse(text)
    assert (target.ref.name, target.ref.tag, target.machine) == (name, tag, machine)
    assert str(target) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Gpu", "'G' at position 1"),
        ("gpu_a", "'_' at position 4"),
        ("gpu a", "' ' at position 4"),
        ("gpu$(id)", "'$' at position 4"),
        ("gpü", "'ü' at position 3"),
        ("gpu٣", "'٣' at position 4"),
        ("a/b", "'/' at position 2"),
        ("-gpu", "'-' at position 1"),
        ("gpu-", "'-' at position 4"),
        ("gpu:-t", "'-' at position 5"),
        ("a:b:c", "a second ':' at position 4"),
        ("a:", "nothing on one side of ':'"),
        (":b", "nothing on one side of ':'"),
        ("", "it is empty"),
        ("@lab", "it is empty"),
        ("gpu@", "it is empty"),
        ("gpu@a@b", "'@' at position 2"),
        ("gpu@la b", "' ' at position 3"),
        ("gpu@lab:test", "':' at position 4"),
        ("a" * 64, "64 characters; 63 are allowed"),
        ("gpu\n", r"'\n' at position 4"),
    ],
)
def test_an_error_names_the_offending_character(text: str, complaint: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        Target.parse(text)
    assert complaint in caught.value.message
    assert caught.value.hint


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=70) | st.from_regex(r"[a-z0-9:@-]{0,70}"))
def test_any_text_is_a_target_or_a_clear_error(text: str) -> None:
    try:
        target = Target.parse(text)
    except InvalidNameError:
        return
    assert str(target) == text
    assert Ref.parse(str(target.ref)) == target.ref


def test_a_tag_after_the_machine_is_explained() -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_name("lab:test")
    assert "name:tag@machine" in caught.value.hint

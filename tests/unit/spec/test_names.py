"""Names are accepted and refused as the reference library does it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec.errors import InvalidNameError
from spec.names import QualifiedName, device_problem, kind_problem
from tests.unit.spec.vectors import cases

# A busy machine is no failure: these tests check what comes out, not when.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

CASES = cases("cdi-names.json")

# Stricter on purpose. The library's version 1.1.0 crashes on a vendor or class of one letter, its main
# branch accepts it: a grant for such a name could take a repository's daemon down.
ONE_LETTER = {"k/tpu=a", "kestrel.io/t=a", "k/t=a", "k"}


def accepts(part: str, text: str) -> bool:
    match part:
        case "qualified":
            try:
                QualifiedName.parse(text)
            except InvalidNameError:
                return False
            return True
        case "vendor":
            # A slash would end the vendor: within a kind it is the class's problem.
            return "/" not in text and not kind_problem(f"{text}/class")
        case "class":
            return not kind_problem(f"vendor.example/{text}")
        case _:
            return not device_problem(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['part']}-{case['note']}")
def test_the_reference_librarys_verdict(case: dict[str, Any]) -> None:
    expected = case["valid"]
    if case["input"] in ONE_LETTER:
        assert case["differs"]["v1.1.0"] == "panic"
        expected = False
    assert accepts(case["part"], case["input"]) == expected


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["part"] == "qualified" and c["valid"] and c["input"] not in ONE_LETTER],
    ids=lambda case: case["note"],
)
def test_a_valid_name_falls_into_its_parts(case: dict[str, Any]) -> None:
    name = QualifiedName.parse(case["input"])
    assert (name.vendor, name.class_, name.device) == (case["vendor"], case["class"], case["device"])
    assert name.kind == f"{case['vendor']}/{case['class']}"
    assert str(name) == case["input"]


def test_every_one_letter_exception_is_in_the_vectors() -> None:
    assert {case["input"] for case in CASES} >= ONE_LETTER


@PATIENT
@given(st.text())
def test_any_text_is_parsed_to_itself_or_refused_with_a_hint(text: str) -> None:
    try:
        name = QualifiedName.parse(text)
    except InvalidNameError as error:
        hint = error.hint
    else:
        assert str(name) == text
        return
    assert "vendor/class=device" in hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("GPU-4c1e09d7", "is not a device name of the form vendor/class=device"),
        ("nvidia.com/gpu=a b", "has the device 'a b'"),
        ("nvidia.com/9=0", "has the class '9'"),
        ("-x/gpu=0", "has the vendor '-x'"),
        ("n/gpu=0", "one letter"),
    ],
)
def test_the_refusal_says_which_part_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InvalidNameError, match=r".") as caught:
        QualifiedName.parse(text)
    assert says in caught.value.message

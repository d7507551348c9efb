"""The shipped JSON schema gives the vectors' verdicts, but where it is stricter or cannot say it."""

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from spec.document import DocumentError, Mapping, Node, Scalar, compose
from spec.generate import generate
from spec.layout import Layout
from spec.mappings import entries
from spec.scalars import resolve
from spec.schema import schema_text
from spec.writer import SCHEMA_ID
from tests import trees
from tests.unit.spec.vectors import cases

CASES = cases("cdi-specs.json")
SCHEMA = json.loads(schema_text())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)

# Accepted by the engine, refused by the schema, which speaks to who writes a spec.
STRICTER = {
    "a field has its own spelling": {
        "case-all-lower",
        "case-all-upper",
        "case-int-name",
        "case-kelvin",
        "case-mixed-json",
        "gids-case-variant",
    },
    "text is text: a number or boolean wants quotes": {
        "ann-int-value",
        "ann-odd-key",  # its second value is an unquoted y
        "hook-args-int",
        "real-nvidia-unquoted-index",
        "typed-binary",
        "typed-exponent",
        "typed-float-trailing",
        "typed-json-int",
        "typed-name-yes-0.3",
        "typed-not-octal",
        "typed-octal",
        "typed-octal-0o",
        "typed-y",
        "typed-yes",
        "typed-zero",
    },
    "no null": {"gids-null-element", "mount-option-null", "node-major-null"},
    "a vendor or class of one letter crashes engines": {"kind-one-letter-class", "kind-one-letter-vendor"},
}
# Refused by the engine, accepted by the schema: JSON schemas cannot say "different in one field".
INEXPRESSIBLE = {"anchor-dup-name", "devs-dup", "net-dup-host", "net-dup-name"}


def plain(node: Node) -> Any:
    """A tree as JSON's values, unquoted numbers and booleans as the engine takes them."""
    if isinstance(node, Scalar):
        return resolve(node.text, node.tag, node.plain)
    if isinstance(node, Mapping):
        return {key: plain(value) for key, _, value in entries(node)}
    return [plain(item) for item in node.items]


def instance(case: dict[str, Any]) -> Any:
    root = compose(base64.b64decode(case["b64"]) if "b64" in case else case["text"].encode())
    return None if root is None else plain(root)


def differing() -> tuple[set[str], set[str]]:
    """The cases that the engine alone accepts, and those that the schema alone accepts."""
    stricter: set[str] = set()
    laxer: set[str] = set()
    for case in CASES:
        try:
            accepted = VALIDATOR.is_valid(instance(case))
        except DocumentError:
            # No schema sees what is no YAML, or a key twice.
            accepted = False
        if accepted != case["valid"]:
            (stricter if case["valid"] else laxer).add(case["id"])
    return stricter, laxer


def test_the_reference_librarys_verdicts() -> None:
    stricter, laxer = differing()
    assert stricter == set.union(*STRICTER.values())
    assert laxer == INEXPRESSIBLE


def test_our_own_specs_name_the_schema_and_fit_it(tmp_path: Path) -> None:
    assert SCHEMA["$id"] == SCHEMA_ID
    trees.mi300_cpx(tmp_path)
    generate(Layout.at(tmp_path))
    paths = list((tmp_path / "etc/cdi").iterdir())
    assert len(paths) == 2
    for path in paths:
        data = path.read_bytes()
        assert SCHEMA_ID.encode() in data.splitlines()[0]
        root = compose(data)
        assert root is not None
        VALIDATOR.validate(plain(root))


def test_the_schema_is_a_valid_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)

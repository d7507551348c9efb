"""Kinds of values in a request body: the types that Go's decoder fills, as strict as the API spells them.

Go matches keys without case and with Unicode folds, merges duplicates, reuses list elements and ignores what
it does not know. A body that is refused unless each key stands once, spelled as the API spells it, with a
value of the field's own type, leaves none of that to be guessed: the reader's value and Go's are then the
same. That is why one table of names and kinds (`plugin.bodies`) is enough.

`null` as a field's value leaves the zero value in Go, as if the field were absent; it passes. `null` as a
list's element, or as the value of a map that does not say otherwise, is refused.

A check returns how many colons of the JSON text the value accounts for: one behind each key, and those inside
its strings. `plugin.decode` compares the sum with the text, which finds a repeated key at the speed of C.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from plugin.denial import Denial, DenialError, unreadable

NULL = type(None)
Check = Callable[[object], int]


def mismatch(expected: str) -> NoReturn:
    """Refuse the value at hand: it is not `expected`."""
    raise unreadable(f"this field is not {expected}")


@dataclass(frozen=True)
class Kind:
    """What a value must be: exactly `python`, as the JSON reader gives it, and what `check` accepts."""

    python: type
    name: str
    check: Check


def count_colons(text: str) -> int:
    """How many colons `text` holds; where it is long and they are few, at the speed of memchr (40 times
    that of `str.count`)."""
    if len(text) < 8192:
        return text.count(":")
    found, position = 0, text.find(":")
    while position >= 0:
        found += 1
        if found == 50:
            return text.count(":")
        position = text.find(":", position + 1)
    return found


def _no_colons(_value: object) -> int:
    return 0


def _colons(value: object) -> int:
    assert isinstance(value, str)  # noqa: S101  # for the type checker: `Kind.python` has been compared
    return count_colons(value)


STRING = Kind(str, "a string", _colons)
BOOLEAN = Kind(bool, "true or false", _no_colons)


def integer(bits: int = 64, signed: bool = True) -> Kind:
    """An integer that fits; Go refuses 1.0, 1e3 and what does not fit."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def check(value: object) -> int:
        assert isinstance(value, int)  # noqa: S101
        if not low <= value <= high:
            mismatch(f"{'an' if signed else 'an unsigned'} integer of {bits} bits")
        return 0

    return Kind(int, "an integer", check)


INTEGER = integer()


def list_of(kind: Kind) -> Kind:
    """A list whose elements are all of `kind`; a null element is refused."""

    def check(value: object) -> int:
        assert isinstance(value, list)  # noqa: S101
        if kind is STRING:
            try:
                return count_colons("".join(value))
            except TypeError:
                pass  # not all are strings: find the one
        return _each(kind, enumerate(value))

    return Kind(list, f"a list of {kind.name.removeprefix('a ').removeprefix('an ')}s", check)


def map_of(kind: Kind, null_values: bool = False) -> Kind:
    """A map with keys of the user's choice, which are case-sensitive in Go."""

    def check(value: object) -> int:
        assert isinstance(value, dict)  # noqa: S101
        colons = len(value) + count_colons("".join(value))
        if kind is STRING:
            try:
                return colons + count_colons("".join(value.values()))
            except TypeError:
                pass
        items = value.items()
        return colons + _each(
            kind, ((name, item) for name, item in items if item is not None or not null_values)
        )

    return Kind(dict, "a map", check)


def _each(kind: Kind, items: Iterable[tuple[object, object]]) -> int:
    colons = 0
    for name, item in items:
        try:
            if type(item) is not kind.python:
                mismatch(kind.name)
            colons += kind.check(item)
        except DenialError as error:
            raise DenialError(error.denial.within(f"[{name!r}]")) from None
    return colons


@dataclass(frozen=True)
class Field:
    """A field that the gate knows: its kind, since and until which API version, and the rule that judges
    it."""

    kind: Kind
    since: str = ""
    until: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Struct:
    """The fields of one object of the API, by their exact names; any other name is refused."""

    fields: Mapping[str, Field]
    _kinds: Mapping[str, tuple[type, Check]] = field(init=False, repr=False, compare=False)
    _folded: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {name: (known.kind.python, known.kind.check) for name, known in self.fields.items()}
        object.__setattr__(self, "_kinds", kinds)
        object.__setattr__(self, "_folded", frozenset(map(fold, self.fields)))

    def check(self, value: object) -> int:
        """Raise `DenialError` unless every field of `value` is known and of its kind."""
        assert isinstance(value, dict)  # noqa: S101
        kinds = self._kinds
        colons = len(value)
        for name, item in value.items():
            known = kinds.get(name)
            if known is None:
                colons += self._unknown(name, item)
                continue
            python, check = known
            if type(item) is python:
                if not item:
                    continue  # clients send all fields, and most are empty: there is nothing in them
                try:
                    colons += check(item)
                except DenialError as error:
                    raise DenialError(error.denial.within(name)) from None
            elif item is not None:
                raise unreadable(f"this field is not {self.fields[name].kind.name}", name)
        return colons

    def _unknown(self, name: str, item: object) -> int:
        if fold(name) in self._folded:
            raise unreadable(f"{name[:100]!r} is another spelling of a field", name)
        if item is None:
            return name.count(":")  # Go leaves the zero value, whatever the field may come to mean
        raise DenialError(
            Denial(
                "unknown-field",
                f"the gate does not know the field {name[:100]!r}",
                "Leave it out; if it is new in the Docker API, the gate needs an update: ask an operator",
                name,
            )
        )


def struct(fields: Mapping[str, Field]) -> Kind:
    """An object with known fields."""
    return Kind(dict, "an object", Struct(fields).check)


# Go's encoding/json folds ASCII case and the two runes that fold into ASCII: U+017F to s and U+212A to k.
_FOLDS = str.maketrans({"\u017f": "s", "\u212a": "k"})


def fold(name: str) -> str:
    """`name` as Go compares keys."""
    return name.translate(_FOLDS).lower()


STRINGS = list_of(STRING)
LABELS = map_of(STRING, null_values=True)
EMPTY_OBJECTS = map_of(struct({}), null_values=True)


def _colons_in(value: object) -> int:
    if isinstance(value, str):
        return value.count(":")
    if isinstance(value, dict):
        return len(value) + sum(map(_colons_in, value)) + sum(map(_colons_in, value.values()))
    return sum(map(_colons_in, value)) if isinstance(value, list) else 0


ANYTHING = Kind(dict, "an object", _colons_in)

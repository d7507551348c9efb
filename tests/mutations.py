"""Damages spec files in the ways of people, editors and attackers: the same damage for the same seed."""

import random
import re
from collections.abc import Callable, Iterator, Sequence

from spec.reader import InvalidSpecError, parse_spec

# A middle dot stands for a space within one.
SCALARS = r"""
0 1 y no 010 0o17 0x1f 1:30 1e3 1.5 438.0 "a" 'b' !!str·5 !!int·"7" !!float·3 !t·x .inf -1 +5 0b11 1_000
2024-01-02 null ~ "" {} [] [a] {a:·b} {a: *x &x·y &x | > a:·b a:b #c a·#c "\x41" "\u00e9" "\/" @a %a `a
-·a ?·a << = a?b [a?b] a,b 0.10 1. .5 1e400 00 -0 0_ _0 0x true TRUE tRUE On off 9223372036854775807 !!str
18446744073709551615 18446744073709551616 4294967295 123456789.0 0.00001 1E5 1.e5 !!bool·yes !!null·"" !·5
!!binary·YQ== !!map·{} !!timestamp·2024-01-02 0888 -010 +0x10 c rw /dev/x A=1 k= é \ a\b "\e" "\·" "\N"
"\_" "\z" "\0" "\U0001F600" !t !!int
"""
WORDS = [word.replace("·", " ") for word in SCALARS.split()]
PIECES: list[str] = [*" \n\t:-,[]{}#&*!|>'\"%@`?=/~._0y\\<\r", "\u00a0", "\u2028", "\ufeff", "\x7f", "\x01"]
PIECES += ["---\n", "...\n", ": ", "- ", "<<: "]
VERSIONS = ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "v0.5.0"]

Mutation = Callable[[str, random.Random], str]
Lines = list[str]


def _replace(pattern: str, replacement: Callable[[str, random.Random], str]) -> Mutation:
    def mutate(text: str, chance: random.Random) -> str:
        matches = list(re.finditer(pattern, text))
        if not matches:
            return text
        start, end = chance.choice([match.span() for match in matches])
        return text[:start] + replacement(text[start:end], chance) + text[end:]

    return mutate


def _lines(change: Callable[[Lines, int, random.Random], object]) -> Mutation:
    def mutate(text: str, chance: random.Random) -> str:
        lines = text.split("\n")
        change(lines, chance.randrange(len(lines)), chance)
        return "\n".join(lines)

    return mutate


def _word(_old: str, chance: random.Random) -> str:
    return WORDS[chance.randrange(len(WORDS))]


def _respell(key: str, chance: random.Random) -> str:
    long_s = "\N{LATIN SMALL LETTER LONG S}"
    spellings = [key.upper(), key.lower(), f'"{key}"', f"{key} ", key.replace("s", long_s), f"!!str {key}"]
    return spellings[chance.randrange(len(spellings))]


def _insert(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text) + 1)
    return text[:place] + chance.choice(PIECES) + text[place:]


def _cut(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text) + 1)
    return text[:place] + text[place + chance.randrange(1, 4) :]


def _indent(lines: list[str], index: int, chance: random.Random) -> None:
    lines[index] = chance.choice(["", " ", "  ", "\t", "   "]) + lines[index].lstrip()


MUTATIONS: Sequence[Mutation] = (
    _replace(r"[^\s\[\]{},:]+", _word),
    _replace(r"(?<=: )[^\n{\[,}]+", _word),
    _replace(r"[A-Za-z]+(?=:)", _respell),
    _replace(r"\d\.\d\.\d", lambda _old, chance: chance.choice(VERSIONS)),
    _lines(lambda lines, index, _chance: lines.__delitem__(index)),
    _lines(lambda lines, index, _chance: lines.insert(index, lines[index])),
    _lines(lambda lines, index, chance: lines.insert(index, chance.choice(lines))),
    _lines(_indent),
    _insert,
    _cut,
)


def mutations(seeds: Sequence[tuple[str, str]], seed: int) -> Iterator[tuple[str, bytes]]:
    """Damaged specs without end, from `seeds` (suffix, text), but for those of which two readers may differ.

    Left out are specs that would end the engine (a null in a list, a vendor or class of one letter), that
    the engine reads by chance (keys that only their types tell apart) or that we refuse on purpose (a field
    in two spellings, the escape ``\\'``, a bracket or comma at a tag).
    """
    chance = random.Random(seed)
    while True:
        suffix, text = chance.choice(seeds)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            text = chance.choice(MUTATIONS)(text, chance)
        data = text.encode("utf-8", "replace")
        if not _undecided(data):
            yield suffix, data


_UNDECIDED = ("null", "one letter", "two spellings", "two types", "escape", "right after a tag")


def _undecided(data: bytes) -> bool:
    if re.search(rb"!\S*[,[]", data):
        return True
    try:
        parse_spec(data)
    except InvalidSpecError as error:
        reasons = " ".join(map(str, error.problems))
        return any(word in reasons for word in _UNDECIDED)
    return False

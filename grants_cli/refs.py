"""How a repository is named: ``name[:tag]``, and its slug, which is the same as a file name."""

import re
from dataclasses import dataclass

from spec.errors import InvalidNameError

LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_REF = re.compile(rf"({LABEL})(?::({LABEL}))?")


@dataclass(frozen=True, order=True)
class Ref:
    """The name of a repository, with its tag where it has one.

    A label has no dot, so two refs never share a slug.
    """

    name: str
    tag: str = ""

    @classmethod
    def parse(cls, text: str) -> "Ref":
        """The ref that `text` spells; raises `InvalidNameError`."""
        match = _REF.fullmatch(text)
        if match is None:
            raise InvalidNameError(
                f"{text!r} is not a repository name: {_complaint(text)}",
                "it is name[:tag], each of 1 to 63 lower-case letters, digits and inner hyphens: gpu-a:test",
            )
        return cls(match[1], match[2] or "")

    @property
    def slug(self) -> str:
        """The ref as a file name: ``name`` or ``name.tag``."""
        return f"{self.name}.{self.tag}" if self.tag else self.name

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else self.name


def _complaint(text: str) -> str:
    """What keeps `text` from being a ref, as the first offending character where there is one."""
    if text.count(":") > 1:
        return f"a second ':' at position {text.index(':', text.index(':') + 1) + 1}"
    for position, character in enumerate(text, 1):
        if not (character.isascii() and (character.isdigit() or character.islower() or character in "-:")):
            return f"{character!r} at position {position}"
    position = 1
    for label in text.split(":"):
        if not label:
            return "it is empty" if ":" not in text else "nothing on one side of ':'"
        for place in (0, len(label) - 1):
            if label[place] == "-":
                return f"'-' at position {position + place}, the {'end' if place else 'start'} of a label"
        if len(label) > 63:
            return f"{len(label)} characters; 63 are allowed"
        position += len(label) + 1
    raise AssertionError(text)

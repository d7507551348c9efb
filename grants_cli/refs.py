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
                f"{text!r} is not a repository name",
                "it is name[:tag], each of 1 to 63 lower-case letters, digits and inner hyphens: gpu-a:test",
            )
        return cls(match[1], match[2] or "")

    @property
    def slug(self) -> str:
        """The ref as a file name: ``name`` or ``name.tag``."""
        return f"{self.name}.{self.tag}" if self.tag else self.name

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else self.name

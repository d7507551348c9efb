"""A denial: which rule, which field, what is refused, and what to do instead."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Denial:
    """Why a request is refused, for a person who has never heard of the gate.

    `rule` is an id of ``docs/rules.md``; `message` says what is refused and `fix` what to do instead,
    each one sentence without its full stop; `field` is the place in the body, ``HostConfig.Devices``.
    """

    rule: str
    message: str
    fix: str
    field: str = ""

    @property
    def text(self) -> str:
        """What the user of the Docker client reads."""
        return f"{self.message}. {self.fix}"


class DenialError(Exception):
    """Raised by the readers: the request cannot be read with certainty."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.text)
        self.denial = denial

"""A denial: which rule, which field, what is refused, and what to do instead."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Denial:
    """Why a request is refused, for a person who has never heard of the gate.

    `rule` is an id of ``docs/rules.md``; `message` says what is refused and `fix` what to do instead,
    each one sentence without its full stop; `field` is the place in the body, ``HostConfig.Devices[0]``,
    empty where the whole request is meant. `devices` are the CDI names concerned. `subject` is what
    gate.yaml names to allow it, for rules that an operator may relax. `reference` finds its line in the log.
    """

    rule: str
    message: str
    fix: str
    field: str = ""
    devices: tuple[str, ...] = ()
    subject: str = ""
    reference: str = ""

    @property
    def text(self) -> str:
        """What the user of the Docker client reads."""
        logged = f" (gate log {self.reference})" if self.reference else ""
        return f"{self.message}. {self.fix}{logged}"

    def within(self, field: str) -> "Denial":
        """The same denial, its place below `field`."""
        separator = "" if not self.field or self.field.startswith("[") else "."
        return replace(self, field=f"{field}{separator}{self.field}")


class DenialError(Exception):
    """Raised by the readers: the request cannot be read with certainty."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.text)
        self.denial = denial


READ_FIX = "Send it as the docker command does, in the exact spelling of the Docker API"


def unreadable(what: str, field: str = "") -> DenialError:
    """The error for what dockerd might read in another way than the gate."""
    return DenialError(
        Denial(
            "unreadable-request", f"the gate cannot read this request with certainty: {what}", READ_FIX, field
        )
    )

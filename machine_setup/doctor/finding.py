"""What a check found."""

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """How bad it is. Only a failure makes ``renet doctor`` end with a failing status."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """One thing that a check looked at."""

    #: The check's name, which stays the same from version to version.
    id: str
    status: Status
    #: The repository it is about; empty for the machine.
    subject: str
    found: str
    #: Why it matters; empty where nothing is wrong.
    why: str = ""
    #: The command that fixes it; empty where nothing is wrong.
    fix: str = ""

    @classmethod
    def ok(cls, subject: str, identity: str, found: str) -> "Finding":
        """Nothing wrong."""
        return cls(identity, Status.OK, subject, found)

    @classmethod
    def warning(cls, subject: str, identity: str, found: str, *, why: str, fix: str) -> "Finding":
        """Something to know of, and to change when there is time."""
        return cls(identity, Status.WARNING, subject, found, why, fix)

    @classmethod
    def failure(cls, subject: str, identity: str, found: str, *, why: str, fix: str) -> "Finding":
        """Something unsafe or broken."""
        return cls(identity, Status.FAILURE, subject, found, why, fix)

    def to_record(self) -> dict[str, str]:
        """The finding as JSON shows it."""
        return {
            "id": self.id,
            "status": self.status.value,
            "repository": self.subject,
            "found": self.found,
            "why": self.why,
            "fix": self.fix,
        }

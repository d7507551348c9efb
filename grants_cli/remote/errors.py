"""What can go wrong between here and a machine."""

from spec.errors import CommandFailedError, RediaccError, UnreachableError


class HostKeyChangedError(UnreachableError):
    """The machine shows another host key than the one that is known for it."""

    code = "host-key-changed"


class HostKeyUnknownError(UnreachableError):
    """The machine's host key has not been accepted yet."""

    code = "host-key-unknown"


class LoginRefusedError(UnreachableError):
    """The machine accepts none of our keys."""

    code = "login-refused"


class LostConnectionError(UnreachableError):
    """The connection ended before the answer came."""

    code = "connection-lost"


class TimedOutError(UnreachableError):
    """The machine did not answer in time."""

    code = "timed-out"


class OutcomeUnknownError(UnreachableError):
    """A command that changes something may or may not have been carried out."""

    code = "outcome-unknown"


class SudoRefusedError(CommandFailedError):
    """sudo on the machine wants a password, or does not allow it."""

    code = "sudo-refused"


class MachinesFailedError(CommandFailedError):
    """Some of several machines failed."""

    code = "machines-failed"


class ContradictionError(RediaccError):
    """What the operator named contradicts what is there."""

    code = "contradiction"
    exit_status = 12


class AnsweredError(RediaccError):
    """An error that `renet` answered with: its code, its message and its exit status."""

    def __init__(self, code: str, message: str, hint: str, exit_status: int) -> None:
        super().__init__(message, hint)
        self.code = code
        self.exit_status = exit_status

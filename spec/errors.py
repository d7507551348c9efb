"""The errors of every package: what happened, and what to do about it.

Each class carries the exit status that the command line ends with and a code for scripts. Only the
front doors (`spec.console`, the gate's application) turn an error into a message.
"""


class RediaccError(Exception):
    """Something an operator can understand: a sentence, and a hint that says what to do."""

    code = "error"
    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RediaccError):
    """The command line is not one that the command understands."""

    code = "usage"
    exit_status = 2


class InvalidNameError(RediaccError):
    """A name or value that its grammar does not allow."""

    code = "invalid-name"
    exit_status = 2


class RefusedError(RediaccError):
    """A rule of this product forbids it: an exclusive grant stands in the way."""

    code = "refused"
    exit_status = 4


class NotFoundError(RediaccError):
    """No such repository, machine or device."""

    code = "not-found"
    exit_status = 5


class UnreachableError(RediaccError):
    """The machine or the daemon does not answer."""

    code = "unreachable"
    exit_status = 6


class AmbiguousError(RediaccError):
    """Several machines have what was named."""

    code = "ambiguous"
    exit_status = 11


class UntrustedError(RediaccError):
    """A file on the machine is not what we can trust: damaged, of an unknown version, or not root's."""

    code = "untrusted-file"
    exit_status = 12


class CommandFailedError(RediaccError):
    """A command that we ran on the machine failed."""

    code = "command-failed"
    exit_status = 14


class BusyError(RediaccError):
    """Another process holds the lock."""

    code = "busy"
    exit_status = 15


class StorageError(RediaccError):
    """A file could not be written: a full disk, a read-only file system. Nothing has changed."""

    code = "storage"

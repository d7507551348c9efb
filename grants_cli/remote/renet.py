"""Asking a machine's `renet`, and reading what it answers."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grants_cli.remote.child import Finished
from grants_cli.remote.errors import AnsweredError, SudoRefusedError
from grants_cli.remote.machines import Machine
from grants_cli.remote.order import Order
from grants_cli.remote.transport import carry
from spec.errors import CommandFailedError, RediaccError

#: Exit statuses of `renet` that mean the same to whoever calls `rdc`; others become 14.
_SAME_MEANING = frozenset({2, 4, 5, 6, 11, 12, 14, 15})
_SUDO = re.compile(
    r"sudo: .*(password is required|terminal is required|must have a tty)|is not in the sudoers file|"
    r"not allowed to (execute|run)|may not run sudo"
)


@dataclass(frozen=True)
class Call:
    """A command of `renet`: its words, options as ``--name=value``, and what follows the options."""

    command: tuple[str, ...]
    options: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    stdin: bytes | None = None
    changes: bool = False
    find_out: str = ""
    #: Exit statuses besides 0 that come with data.
    also: frozenset[int] = frozenset()

    def order(self, program: str | tuple[str, ...] = "renet") -> Order:
        """The call as an order that asks for JSON; no operand can be taken for an option."""
        operands = ("--", *self.operands) if self.operands else ()
        return Order(
            (*self.command, *self.options, "-o", "json", *operands), program, self.changes, self.find_out
        )


def ask(
    machine: Machine,
    call: Call,
    timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
    program: str | tuple[str, ...] = "renet",
) -> object:
    """The data that `renet` on `machine` answers `call` with.

    Raises what `carry` raises; `AnsweredError` with the code, hint and exit status of renet's own error;
    `SudoRefusedError`; `CommandFailedError` when it ends without an answer.
    """
    finished = carry(machine, call.order(program), call.stdin, timeout, on_line)
    return data(machine, finished, call.also)


def ask_raw(machine: Machine, call: Call, timeout: float | None = None) -> bytes:
    """What `renet` on `machine` prints for `call`, byte for byte; raises what `ask` raises."""
    finished = carry(machine, call.order(), call.stdin, timeout)
    if finished.status != 0:
        data(machine, finished)
    return finished.stdout


def data(machine: Machine, finished: Finished, also: frozenset[int] = frozenset()) -> object:
    """The data in what `renet` (or the installer) on `machine` printed; raises what `ask` raises."""
    answer = _answer(finished.stdout)
    if answer is None:
        raise _no_answer(machine, finished)
    if finished.status in {0, *also} and answer.get("ok") is True:
        return answer.get("data")
    error = answer.get("error")
    if not isinstance(error, dict):
        raise _no_answer(machine, finished)
    status = finished.status if finished.status in _SAME_MEANING else CommandFailedError.exit_status
    hint = str(error.get("hint", "")).replace("{machine}", machine.name)
    if error.get("code") == "usage" and not hint:
        hint = f"renet there may be older than this rdc: rdc machine setup {machine}"
    raise AnsweredError(
        str(error.get("code", "error")), _named(machine, str(error.get("message", ""))), hint, status
    )


def _answer(stdout: bytes) -> dict[str, object] | None:
    try:
        answer = json.loads(stdout.decode())
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("ok"), bool) else None


def _no_answer(machine: Machine, finished: Finished) -> RediaccError:
    said = [line.strip() for line in finished.stderr.splitlines() if line.strip(" ^~")]
    if _SUDO.search(finished.stderr):
        return SudoRefusedError(
            f"machine {machine}: {said[-1]}",
            "rdc asks for no passwords: log in as root, or let this user run renet with NOPASSWD",
        )
    if finished.status == 127:
        return CommandFailedError(
            f"machine {machine} has no python3 on the PATH of its login", "install python3.11 or newer there"
        )
    tail = f": {said[-1]}" if said else ""
    return CommandFailedError(
        f"machine {machine}: renet ended with status {finished.status} and without an answer{tail}",
        f"look for the cause there: rdc machine doctor {machine}",
    )


def _named(machine: Machine, message: str) -> str:
    return message if machine.is_local else f"machine {machine}: {message}"


def words(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """The option `name` once for each of `values`, so that no value is taken for an option."""
    return tuple(f"{name}={value}" for value in values)

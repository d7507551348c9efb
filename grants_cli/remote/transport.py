"""Carrying an order to a machine: as a child process here, over OpenSSH anywhere else."""

import sys
from collections.abc import Callable
from typing import IO

from grants_cli.remote import child, own, ssh
from grants_cli.remote.child import Finished
from grants_cli.remote.errors import LostConnectionError, OutcomeUnknownError, TimedOutError
from grants_cli.remote.machines import Machine
from grants_cli.remote.order import Order, launcher_source
from spec.errors import RediaccError, UnreachableError


def carry(
    machine: Machine,
    order: Order,
    stdin: bytes | IO[bytes] | None = None,
    timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run `order` on `machine` and return how it ended there.

    Takes `timeout` seconds at most; `on_line` hears each line of its stderr as it comes. Raises
    `UnreachableError` or a subclass when the machine was not reached or did not answer to the end, and
    `OutcomeUnknownError` when an order that changes something may have been carried out all the same.
    """
    if machine.is_local:
        argv = _local(order)
    else:
        argv = ssh.command(machine, order.shell_line())
    try:
        finished = child.run(argv, stdin, timeout, on_line)
    except FileNotFoundError as error:
        raise UnreachableError(
            f"{error.filename} is not installed here", "install OpenSSH's client"
        ) from None
    except KeyboardInterrupt:
        if order.changes:
            raise _lost(order, LostConnectionError(f"machine {machine}: interrupted")) from None
        raise
    if finished.timed_out:
        raise _lost(order, TimedOutError(f"machine {machine} has not answered within {timeout:g} seconds"))
    if not machine.is_local and (finished.status == ssh.FAILED or finished.status < 0):
        raise _lost(order, ssh.explain(machine, finished.stderr))
    return finished


def _lost(order: Order, error: RediaccError) -> RediaccError:
    if order.changes and isinstance(error, LostConnectionError | TimedOutError):
        return OutcomeUnknownError(
            f"{error.message}. Whether the change was made is not known",
            f"find out: {order.find_out}" if order.find_out else error.hint,
        )
    return error


def _local(order: Order) -> list[str]:
    program = own.program("renet", "machine_setup.renet") if order.program == "renet" else order.program
    return [sys.executable, "-IS", "-c", launcher_source(), order.encoded(program)]

"""Many machines at once."""

import time

import pytest

from grants_cli.remote import fleet
from grants_cli.remote.fleet import Outcome
from grants_cli.remote.machines import Machine
from spec.errors import NotFoundError, RediaccError, UnreachableError

MACHINES = [Machine(name, name) for name in ("slow", "dead", "quick")]


def work(machine: Machine) -> str:
    if machine.name == "dead":
        raise UnreachableError("dead")
    time.sleep(0.5 if machine.name == "slow" else 0)
    return machine.name


def test_the_quickest_answers_come_first_and_none_waits() -> None:
    begun = time.monotonic()
    order = []
    for outcome in fleet.each(MACHINES, work):
        order.append(outcome.machine.name)
        if outcome.machine.name == "quick":
            assert time.monotonic() - begun < 0.4
    assert order[-1] == "slow"
    assert len(order) == 3


def test_there_may_be_hundreds() -> None:
    many = [Machine(f"m{n}", "x") for n in range(200)]
    begun = time.monotonic()
    assert len(list(fleet.each(many, lambda _: time.sleep(0.3)))) == 200
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("errors", "status", "code"),
    [
        ([None, None], None, None),
        ([UnreachableError("x")], 6, "unreachable"),
        ([UnreachableError("x"), None], 6, "machines-failed"),
        ([UnreachableError("x"), NotFoundError("x")], 14, "machines-failed"),
        ([NotFoundError("x"), NotFoundError("x")], 5, "machines-failed"),
    ],
)
def test_the_status_says_whether_any_failed(
    errors: list[RediaccError | None], status: int | None, code: str | None
) -> None:
    outcomes: list[Outcome[str]] = [
        Outcome(Machine(f"m{n}"), 0, error=error) for n, error in enumerate(errors)
    ]
    error = fleet.failure(outcomes)
    assert (error.exit_status if error else None, error.code if error else None) == (status, code)
    if code == "machines-failed" and error:
        failed = [f"m{n}" for n, one in enumerate(errors) if one]
        assert error.message.endswith(", ".join(failed))

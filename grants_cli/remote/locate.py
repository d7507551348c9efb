"""Which machine is meant: the one that the operator names, else the only one that has the repository."""

from collections.abc import Sequence

from grants_cli.remote import answers, cache, fleet
from grants_cli.remote.errors import ContradictionError
from grants_cli.remote.fleet import Outcome
from grants_cli.remote.machines import Machine, Machines
from grants_cli.remote.renet import Call, ask
from grants_cli.remote.target import Target
from spec.errors import AmbiguousError, NotFoundError, UnreachableError, UsageError

#: How long a machine may take to say which repositories it has.
TIMEOUT = 20.0


def repositories(machine: Machine, timeout: float | None = TIMEOUT) -> list[answers.Repository]:
    """The repositories of `machine`; remembered for completion. Raises what `renet.ask` raises."""
    found = answers.repositories(ask(machine, Call(("repo", "list")), timeout))
    cache.remember(machine.name, repositories=[repository.ref for repository in found])
    return found


def machine_of(target: Target, machines: Machines, option: str = "", changes: bool = False) -> Machine:
    """The machine that `target` is on; `option` is the machine that the command line names besides.

    Without a name it is the only machine that has the repository. For a command that changes something every
    machine must have answered: one that is down may have the repository too.

    Raises `AmbiguousError` with the list, `NotFoundError`, `UnreachableError`, and `ContradictionError` when
    `target` and `option` name different machines.
    """
    if target.machine and option and target.machine != option:
        raise ContradictionError(
            f"{target} is said to be on {target.machine} and, by the option, on {option}",
            "leave one of them out",
        )
    if target.machine or option:
        return machines.get(target.machine or option)
    everywhere = machines.all()
    if len(everywhere) == 1:
        return everywhere[0]
    outcomes = list(fleet.each(everywhere, repositories))
    return _only(target, outcomes, changes)


def _only(target: Target, outcomes: Sequence[Outcome[list[answers.Repository]]], changes: bool) -> Machine:
    holders = sorted(o.machine for o in outcomes if str(target.ref) in {r.ref for r in o.value or ()})
    silent = sorted(o.machine.name for o in outcomes if o.error)
    if len(holders) > 1:
        names = " or ".join(f"{target.ref}@{machine}" for machine in holders)
        raise AmbiguousError(
            f"{len(holders)} machines have {target.ref}: {', '.join(machine.name for machine in holders)}",
            f"say which: {names}",
        )
    if silent and (changes or not holders):
        known = f"; {holders[0]} has it" if holders else ""
        raise UnreachableError(
            f"{', '.join(silent)} did not say whether {target.ref} is there{known}",
            f"name the machine: {target.ref}@{holders[0] if holders else 'MACHINE'}",
        )
    if not holders:
        raise NotFoundError(f"no machine has {target.ref}", "rdc repo list --all shows what there is")
    return holders[0]


def contradicted(target: Target, machine: Machine, machines: Machines) -> ContradictionError | None:
    """The error to show instead when `machine` has not got `target` but others have: both sides of it."""
    others = [other for other in machines.all() if other != machine]
    outcomes = list(fleet.each(others, repositories))
    holders = sorted(o.machine.name for o in outcomes if str(target.ref) in {r.ref for r in o.value or ()})
    if not holders:
        return None
    return ContradictionError(
        f"{target.ref} is said to be on {machine}, but is not there: {', '.join(holders)} has it",
        f"name that machine: {target.ref}@{holders[0]}",
    )


def machine_for_new(target: Target, machines: Machines) -> Machine:
    """The machine for a repository that does not exist yet; raises `UsageError` when there is a choice."""
    if target.machine:
        return machines.get(target.machine)
    everywhere = machines.all()
    if len(everywhere) == 1:
        return everywhere[0]
    raise UsageError(
        f"which machine is {target.ref} to be on?",
        f"say it: {' or '.join(f'{target.ref}@{machine}' for machine in everywhere[:4])}",
    )

"""Examining a machine: its facts are gathered once, its daemons at the same time, then every check judges."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grants_cli.register import Repository
from machine_setup.doctor import access_checks, daemon_checks, machine_checks, spec_checks
from machine_setup.doctor.facts import DaemonFacts, MachineFacts, gather
from machine_setup.doctor.finding import Finding
from spec import registry
from spec.layout import Layout

#: Daemons are asked at the same time: one that hangs costs its time-out once.
_AT_ONCE = 32


def machine(layout: Layout) -> tuple[Finding, ...]:
    """What there is to say of the machine beside its daemons."""
    facts = MachineFacts(layout, registry.read([layout.cdi_dir]), registry.read([_runtime_dir(layout)]))
    checks = (*machine_checks.CHECKS, *spec_checks.CHECKS)
    return tuple(finding for check in checks for finding in check(facts))


def _runtime_dir(layout: Layout) -> Path:
    return layout.root / "var/run/cdi"


def repositories(layout: Layout, chosen: Iterable[Repository]) -> tuple[Finding, ...]:
    """What there is to say of each of `chosen`, in their order."""
    specs = registry.read([layout.cdi_dir])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        gathered = pool.map(lambda repository: gather(layout, repository, specs), chosen)
        return tuple(finding for facts in gathered for finding in examine(facts))


def examine(facts: DaemonFacts) -> tuple[Finding, ...]:
    """What the checks of a daemon say of these facts."""
    checks = (*daemon_checks.CHECKS, *access_checks.CHECKS)
    return tuple(finding for check in checks for finding in check(facts))

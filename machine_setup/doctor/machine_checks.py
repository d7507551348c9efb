"""Checks of the machine's own files: grants, register, options, inventory, plugin sockets."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from grants_cli import findings, inventory
from grants_cli.store import GrantStore
from grants_cli.times import utc_now
from machine_setup.doctor.facts import MachineFacts
from machine_setup.doctor.finding import Finding, Status
from plugin.options import read_or_default
from spec.errors import RediaccError, UntrustedError


def files_trusted(facts: MachineFacts) -> Iterator[Finding]:
    """Whether grants and register can be believed: the gate denies what it cannot read."""
    store = GrantStore(facts.layout)
    wrong = False
    for read in (store.read, store.read_register):
        try:
            read()
        except UntrustedError as error:
            wrong = True
            yield Finding.failure(
                "",
                "files-trusted",
                error.message,
                why="the gate denies every device while it stands",
                fix=error.hint,
            )
    if not wrong:
        yield Finding.ok("", "files-trusted", "grants and repositories can be read and are root's")


def grants_sound(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the grants are such as would be given today: exclusive ones apart, known names, known cards."""
    try:
        odd = list(findings.findings(facts.layout, utc_now()))
    except UntrustedError:
        return
    for sentence in odd:
        status = Status.FAILURE if "exclusively" in sentence else Status.WARNING
        yield Finding(
            "grants-sound",
            status,
            "",
            sentence,
            "a repository may have less, or more, than was meant",
            "renet gpu list; then renet gpu revoke REPO --device NAME",
        )
    if not odd:
        yield Finding.ok(
            "", "grants-sound", "no grant contradicts another, and each names a device of this machine"
        )


def options_sound(facts: MachineFacts) -> Iterator[Finding]:
    """Whether gate.yaml is understood: a mistake in it makes none of it count."""
    options = read_or_default(facts.layout.gate_options)
    if options.problem:
        yield Finding.failure(
            "",
            "options-sound",
            options.problem,
            why="none of the operator's options counts",
            fix="renet gate check",
        )
    else:
        yield Finding.ok("", "options-sound", "the gate's options are understood")


def inventory_current(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the inventory is as new as the specs it describes."""
    path = facts.layout.inventory
    try:
        known = inventory.read_inventory(facts.layout)
    except RediaccError as error:
        yield Finding.warning(
            "",
            "inventory-current",
            error.message,
            why="renet gpu list cannot say what the machine has",
            fix="renet setup",
        )
        return
    if known is None:
        yield Finding.warning(
            "",
            "inventory-current",
            f"there is no {path}",
            why="renet gpu list cannot say what the machine has",
            fix="renet setup",
        )
        return
    recorded = {device["name"] for device in known.devices}
    changed = recorded.symmetric_difference(facts.specs.names())
    age = _age(known.generated_at)
    if changed:
        yield Finding.warning(
            "",
            "inventory-current",
            f"the inventory ({age} old) and the specs differ: {', '.join(sorted(changed))}",
            why="renet gpu list shows another machine than this one",
            fix="renet setup",
        )
    else:
        yield Finding.ok("", "inventory-current", f"the inventory, {age} old, has the specs' devices")


def _age(since: datetime) -> str:
    seconds = int((datetime.now(UTC) - since).total_seconds())
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{max(seconds, 0)} seconds"


def plugin_sockets_alive(facts: MachineFacts) -> Iterator[Finding]:
    """Whether a dead plugin socket slows every daemon: each costs 15 s at each listing of volumes."""
    dead = [path for path in sorted(facts.layout.plugin_dir.glob("*.sock")) if not _is_alive(path)]
    for path in dead:
        yield Finding.warning(
            "",
            "plugin-sockets-alive",
            f"nobody listens on {path}",
            why="every dockerd of the machine waits about 15 s for it at each listing of volumes",
            fix=f"rm {path}",
        )
    if not dead:
        yield Finding.ok("", "plugin-sockets-alive", f"no dead socket in {facts.layout.plugin_dir}")


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


CHECKS = (files_trusted, grants_sound, options_sound, inventory_current, plugin_sockets_alive)

"""How answers look to a person: within 80 columns on a terminal, whole when piped."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from grants_cli.remote.answers import Inventory, LiveGrant, Record, Repository, Status, names, records, text
from grants_cli.remote.fleet import Outcome
from spec.console import print_table, say


def gpus(machine: str, status: Status, now: datetime) -> None:
    """Print the cards of `machine`, and who may use which device at this moment."""
    _cards(machine, status.inventory, now)
    if status.devices or status.grants:
        click.echo()
        print_table(("DEVICE", "GRANTED TO"), _devices(status))


def _cards(machine: str, inventory: Inventory | None, now: datetime) -> None:
    if inventory is None:
        click.echo(f"{machine}: not set up yet; do it: rdc machine setup {machine}")
        return
    platform = {"native": "native", "wsl": "WSL"}.get(inventory.platform, inventory.platform)
    click.echo(f"{machine}: {platform}, inventory {age(inventory.generated, now)}")
    for warning in inventory.warnings:
        say(f"warning: {machine}: {warning}")
    if not inventory.gpus:
        click.echo("no GPU")
        return
    rows = [
        (str(gpu.index), gpu.name, gpu.driver or "-", f"{gpu.memory} MiB" if gpu.memory else "-")
        for gpu in inventory.gpus
    ]
    print_table(("#", "GPU", "DRIVER", "MEMORY"), rows)


def _devices(status: Status) -> list[tuple[str, str]]:
    holders: dict[str, list[str]] = defaultdict(list)
    for grant in status.grants:
        holders[grant.device].append(_holder(grant))
    # A grant outlives the spec that defined its device: it is shown all the same.
    gone = sorted(set(holders) - set(status.devices))
    return [
        *((name, ", ".join(sorted(holders[name])) or "-") for name in status.devices),
        *((f"{name} (no spec defines it)", ", ".join(sorted(holders[name]))) for name in gone),
    ]


def _holder(grant: LiveGrant) -> str:
    notes = [
        *(["exclusive"] if grant.exclusive else []),
        *([f"until {grant.expires}"] if grant.expires else []),
    ]
    return f"{grant.repository} ({', '.join(notes)})" if notes else grant.repository


def change(machine: str, answer: Record) -> None:
    """Print what a grant or a revocation on `machine` changed, and what was so before."""
    where = f"{text(answer, 'repository')} on {machine}"
    would = "would be " if answer.get("dryRun") else ""
    for verb in ("granted", "revoked"):
        for device in names(answer, verb):
            click.echo(f"{device}: {would}{verb}, {where}")
        if verb in answer:
            for device in names(answer, "already"):
                click.echo(f"{device}: {'granted' if verb == 'granted' else 'not granted'} before, {where}")


def who(found: Mapping[str, Record]) -> None:
    """Print who holds which device: the answers of ``renet gpu who`` by the device that was asked for."""
    rows = []
    for device, answer in found.items():
        for holder in records(answer.get("holders"), "holders"):
            other = text(holder, "device")
            grant = "exclusive" if holder.get("exclusive") else "shared" if holder.get("live") else "none"
            running = ", ".join(names(holder, "running")) or ("?" if holder.get("problem") else "-")
            name = device if other == device else f"{device} as {other}"
            rows.append((name, text(holder, "repository"), grant, running))
    print_table(("DEVICE", "REPOSITORY", "GRANT", "RUNNING"), rows)


_MADE = {"create": "created", "adopt": "adopted", "fork": "forked"}


def made(machine: str, verb: str, ref: str, answer: Record) -> None:
    """Print that a repository was made, and how its users reach its daemon on the machine."""
    if answer.get("dryRun"):
        click.echo(f"{ref}@{machine}: would be {_MADE[verb]}")
        return
    stopped = "; its daemon does not run" if answer.get("running") is False else ""
    click.echo(f"{ref}@{machine}: {_MADE[verb]}, without grants{stopped}")
    click.echo(f"  there: export DOCKER_HOST=unix://{text(answer, 'socket')}")
    for deviation in records(answer.get("deviations", []), "deviations"):
        found, wanted = text(deviation, "found"), text(deviation, "wanted")
        say(f"warning: {text(deviation, 'key')} is {found} and must be {wanted}: {text(deviation, 'why')}")


def grants_of(name: str, grants: Sequence[LiveGrant]) -> None:
    """Print the grants of one repository."""
    if not grants:
        click.echo(f"{name} has no grants")
        return
    rows = [(g.device, "yes" if g.exclusive else "no", g.expires or "never") for g in grants]
    print_table(("DEVICE", "EXCLUSIVE", "EXPIRES"), rows)


def repositories(found: Sequence[tuple[str, Repository]]) -> None:
    """Print repositories with the machines they are on."""
    rows = [
        (machine, one.ref, _state(one.record), ", ".join(names(one.record, "devices")) or "-")
        for machine, one in found
    ]
    print_table(("MACHINE", "REPOSITORY", "DAEMON", "DEVICES"), rows)


def _state(record: Record) -> str:
    running = "running" if record.get("running") else "stopped"
    return running if record.get("managed") else f"{running}, adopted"


_COLOURS = {"failure": "red", "warning": "yellow", "ok": "green"}


def doctor(machine: str, answer: Record, verbose: bool) -> None:
    """Print what ``renet doctor`` found on `machine`, the worst first; if `verbose` what is in order too."""
    findings = records(answer.get("findings"), "findings")
    for status in ("failure", "warning", *(["ok"] if verbose else [])):
        for finding in findings:
            if finding.get("status") == status:
                _finding(machine, finding)
    counts = {status: sum(one.get("status") == status for one in findings) for status in _COLOURS}
    bad, fair, good = counts["failure"], counts["warning"], counts["ok"]
    click.echo(f"{machine}: {bad} failures, {fair} warnings, {good} checks in order")


def _finding(machine: str, finding: Record) -> None:
    status = text(finding, "status")
    mark = click.style(status, fg=_COLOURS.get(status))
    subject = text(finding, "repository")
    where = f"{subject}@{machine}" if subject else machine
    click.echo(f"{mark} {where}: {text(finding, 'found')} [{text(finding, 'id')}]")
    for key in ("why", "fix"):
        if text(finding, key):
            click.echo(f"    {key}: {text(finding, key)}")


def outcomes(all_of_them: Sequence[Outcome[object]]) -> None:
    """Print what became of each machine, to stderr: failures by name, with what to do."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=True, highlight=False, width=10_000)
    table = Table("MACHINE", "RESULT", "AFTER", box=None, pad_edge=False)
    for outcome in sorted(all_of_them, key=lambda o: (o.error is not None, o.machine)):
        result = Text(outcome.error.message if outcome.error else "done")
        if outcome.error and outcome.error.hint:
            result.append(f"\nhint: {outcome.error.hint}")
        table.add_row(outcome.machine.name, result, f"{outcome.seconds:.1f} s")
    console.print(table)


def age(moment: str, now: datetime | None = None) -> str:
    """How long ago `moment` (UTC as text) was, in the largest fitting unit."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "of unknown age"
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 0:
        return "from the future: check the clocks"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} old"
    return "new"

"""``renet doctor``: what makes this machine unsafe or broken, and what to do about it."""

import click

from grants_cli import complete
from machine_setup.doctor.finding import Finding, Status
from spec.console import emit, layout, output_option
from spec.errors import UntrustedError

_MARKS = {
    Status.OK: ("ok", "green"),
    Status.WARNING: ("warning", "yellow"),
    Status.FAILURE: ("FAILURE", "red"),
}


@click.command("doctor")
@click.argument("repo", required=False, shell_complete=complete.repository)
@click.option("-v", "--verbose", is_flag=True, help="Show what is in order, too.")
@output_option
@click.pass_context
def doctor(ctx: click.Context, repo: str | None, verbose: bool) -> None:
    """Look for what makes this machine, or the repository REPO, unsafe or broken.

    Each finding says what was found, why it matters and the command that fixes it. It reads the running
    daemons themselves, and changes nothing. The exit status is 1 when there is a failure, 0 otherwise.

    \b
    renet doctor
    renet doctor gpu-a -v
    """
    from grants_cli.store import GrantStore
    from machine_setup.doctor import examine

    store = GrantStore(layout())
    findings: tuple[Finding, ...] = ()
    if repo is None:
        findings = examine.machine(layout())
    try:
        register = store.read_register()
        chosen = (register.get(repo),) if repo else register.repositories
    except UntrustedError:
        if repo:
            raise
        chosen = ()  # which the machine's findings have said already
    findings += examine.repositories(layout(), chosen)
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    emit(
        {
            "healthy": not counts[Status.FAILURE],
            "counts": {status.value: count for status, count in counts.items()},
            "findings": [finding.to_record() for finding in findings],
        },
        lambda: _show(findings, counts, verbose),
    )
    ctx.exit(1 if counts[Status.FAILURE] else 0)


def _show(findings: tuple[Finding, ...], counts: dict[Status, int], verbose: bool) -> None:
    order = [Status.FAILURE, Status.WARNING, *([Status.OK] if verbose else [])]
    for status in order:
        for finding in findings:
            if finding.status is status:
                _show_one(finding)
    summary = [f"{counts[status]} {status.value}{'s' if counts[status] != 1 else ''}" for status in order[:2]]
    click.echo(f"{', '.join(summary)}, {counts[Status.OK]} checks in order")


def _show_one(finding: Finding) -> None:
    mark, colour = _MARKS[finding.status]
    where = f"{finding.subject}: " if finding.subject else ""
    click.echo(f"{click.style(mark, fg=colour)} {where}{finding.found} [{finding.id}]")
    if finding.why:
        click.echo(f"    why: {finding.why}")
        click.echo(f"    fix: {finding.fix}")

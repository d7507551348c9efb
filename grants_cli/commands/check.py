"""``renet gpu check``: whether the machine's grants can be trusted, and what an operator should look at."""

import click

from grants_cli import findings, recovery
from grants_cli.recovery import FileReport
from grants_cli.times import utc_now
from spec.console import emit, layout, output_option, print_table, wants_json
from spec.errors import UntrustedError


@click.command("check")
@output_option
def check() -> None:
    """Say whether the files of grants and repositories can be trusted, and whether they fit together.

    Ends with status 12 when one cannot be trusted; `renet gpu restore` brings the newest good copy back.
    """
    reports = recovery.inspect(layout())
    bad = [report for report in reports if report.problem]
    if bad and wants_json():
        raise _error(bad)
    found = () if bad else tuple(findings.findings(layout(), utc_now()))
    files = [_record(report) for report in reports]

    def show() -> None:
        rows = [(str(file["path"]), str(file["state"]), str(file["newestGoodCopy"] or "-")) for file in files]
        print_table(("FILE", "STATE", "NEWEST GOOD COPY"), rows)
        for finding in found:
            click.echo(f"warning: {finding}", err=True)

    emit({"files": files, "warnings": list(found)}, show)
    if bad:
        raise _error(bad)


def _record(report: FileReport) -> dict[str, object]:
    whole = "good" if report.path.exists() else "not written yet"
    state = report.problem or ("gone" if report.lost else whole)
    copy = str(report.newest_good.path) if report.newest_good else None
    return {"path": str(report.path), "state": state, "newestGoodCopy": copy}


def _error(bad: list[FileReport]) -> UntrustedError:
    restorable = all(report.newest_good for report in bad)
    hint = (
        "renet gpu restore brings back the newest good copy (--dry-run shows which)"
        if restorable
        else "no good copy is left: mend the file by hand, or move it away to begin without what it says"
    )
    return UntrustedError("; ".join(report.problem for report in bad), hint)

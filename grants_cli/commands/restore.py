"""``renet gpu restore``: bring back the newest good copy of a damaged file."""

import click

from grants_cli import recovery
from grants_cli.recovery import Restored
from grants_cli.times import to_text
from spec.console import emit, layout, output_option


@click.command("restore")
@click.option("--dry-run", is_flag=True, help="Say what would come back, and change nothing.")
@output_option
def restore(dry_run: bool) -> None:
    """Bring back the newest good copy of each file of grants or repositories that is damaged or gone.

    What is damaged is set aside, not removed. A file that can be trusted is left alone. What has expired
    and what belongs to no repository does not come back.
    """
    restored = recovery.restore(layout(), dry_run=dry_run)

    def show() -> None:
        for item in restored:
            _tell(item, dry_run)
        if not restored:
            click.echo("nothing to restore: the files can be trusted")

    emit({"restored": [_record(item) for item in restored], "dryRun": dry_run}, show)


def _tell(item: Restored, dry_run: bool) -> None:
    verb = "would bring back" if dry_run else "brought back"
    click.echo(f"{verb} {item.path} as it was written at {to_text(item.written_at)}")
    if item.set_aside:
        click.echo(f"  the damaged file {'would be' if dry_run else 'is'} kept as {item.set_aside}")
    for change in item.lost_changes:
        click.echo(f"  lost, and to be done again: {change}")


def _record(item: Restored) -> dict[str, object]:
    return {
        "path": str(item.path),
        "copy": str(item.generation.path),
        "writtenAt": to_text(item.written_at),
        "setAside": str(item.set_aside) if item.set_aside else None,
        "lostChanges": list(item.lost_changes),
    }

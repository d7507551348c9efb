"""What systemd knows, so that a step can tell whether it still has to be told.

A set-up may be cut off between a unit's file and the command that follows it: so the question is never
whether the file had to be written this time.
"""

from pathlib import Path

from machine_setup.setup.changes import Change, RunProgram
from machine_setup.setup.context import Context


def runs(root: Path) -> bool:
    """Whether systemd runs the machine below `root`."""
    return (root / "run/systemd/system").is_dir()


def has_read(context: Context, *units: str) -> bool:
    """Whether systemd has read the files of `units`, which are no templates, as they are."""
    current = {"LoadState": "loaded", "NeedDaemonReload": "no"}
    shown = [_show(context, unit, ",".join(current)) for unit in units]
    return all(answer == current for answer in shown if answer)


def runs_older(context: Context, unit: str) -> bool:
    """Whether `unit` runs, and was started before its file was last written."""
    shown = _show(context, unit, "ActiveState,ActiveEnterTimestamp")
    started = shown.get("ActiveEnterTimestamp", "").removeprefix("@")
    path = context.layout.unit_dir / unit
    if shown.get("ActiveState") not in {"active", "activating", "reloading"} or not started.isdecimal():
        return False
    return path.exists() and int(started) < int(path.stat().st_mtime)


def command(context: Context, *words: str) -> list[Change]:
    """The change ``systemctl WORDS…``; none where the machine's programs are not to be run."""
    return [RunProgram(context.programs, ["systemctl", *words])] if _can_ask(context) else []


def _can_ask(context: Context) -> bool:
    return context.programs.find("systemctl") is not None


def _show(context: Context, unit: str, properties: str) -> dict[str, str]:
    if not _can_ask(context):
        return {}
    shown = context.programs.run(["systemctl", "show", "--timestamp=unix", f"--property={properties}", unit])
    return dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)

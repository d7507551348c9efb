"""Writes the pages of ``docs/`` that are made from the code.

    python3 -m scripts.generate_docs

A test compares the pages with what this would write, so none can go stale.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from grants_cli.rdc import rdc
from machine_setup.renet import renet
from scripts.messages import Message, messages
from spec.errors import RediaccError

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Made by scripts/generate_docs.py: change the code, not this page. -->\n"


def commands_page() -> str:
    """``docs/commands.md``: every command with its help, and the exit statuses."""
    parts = [
        NOTE,
        "# Commands\n",
        "`rdc` is the operator's command on any workstation; `renet` is the command on the machine.\n",
    ]
    for program in (rdc, renet):
        for path, command in walk(program.name or "", program):
            parts.append(f"{'##' if ' ' not in path else '###'} {path}\n")
            parts.append(f"```text\n{_help(path, command)}\n```\n")
    parts += ["## Exit statuses\n", *_statuses()]
    return "\n".join(parts)


def messages_page() -> str:
    """``docs/messages.md``: every error and every denial, with what to do."""
    errors, denials = messages()
    return "\n".join(
        [
            NOTE,
            "# Every message\n",
            "What only a run knows is in capitals. [Commands](commands.md) has the exit statuses.\n",
            "## Denials of the gate\n",
            "Docker shows them as `authorization denied by plugin rediacc-NAME: …`. The `(gate log ID)` at",
            "the end finds the line in `/var/log/rediacc/gate.jsonl`. [Rules](rules.md) explains each rule;",
            "one without advice here may be relaxed for one repository, and the message says how.\n",
            *_table("rule", denials),
            "## Errors of the commands\n",
            *_table("code", errors),
        ]
    )


def _table(what: str, rows: Sequence[Message]) -> Iterator[str]:
    yield f"| {what} | message | what to do |"
    yield "|---|---|---|"
    for row in rows:
        cells = (row.text.replace("|", "\\|"), row.hint.replace("|", "\\|"))
        yield f"| `{row.code}` | {cells[0]} | {cells[1]} |"
    yield ""


def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Every command below `command`, itself first, with the words that a user types."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from walk(f"{path} {name}", child)


def _help(path: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
    )
    return command.get_help(context)


def _statuses() -> Iterator[str]:
    yield "| status | code | meaning |"
    yield "|---|---|---|"
    yield "| 0 | | done; also: already granted, already revoked |"
    seen = set()
    for error in sorted(_family(RediaccError), key=lambda error: (error.exit_status, error.code)):
        if (error.exit_status, error.code) not in seen:
            seen.add((error.exit_status, error.code))
            meaning = inspect.cleandoc(error.__doc__ or "").splitlines()[0]
            yield f"| {error.exit_status} | `{error.code}` | {meaning} |"
    yield ""


def _family(error: type[RediaccError]) -> Iterator[type[RediaccError]]:
    yield error
    for subclass in error.__subclasses__():
        yield from _family(subclass)


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "messages.md": messages_page,
}


def main() -> None:
    """Write every generated page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()

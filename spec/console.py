"""What every command shares: output as a table or JSON, errors as a message and an exit status.

Data goes to stdout; messages, progress and errors go to stderr. With ``-o json`` stdout carries exactly
one object: ``{"ok": true, "data": …}`` or ``{"ok": false, "error": {"code", "message", "hint"}}``.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from spec.errors import RediaccError, UsageError
from spec.layout import Layout

if TYPE_CHECKING:
    from rich.table import Table

_MOST_FITTED_ROWS = 500

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def output_option(function: FunctionT) -> FunctionT:
    """Add ``-o table|json``; `emit` and `fail` read it from the context."""

    def remember(ctx: click.Context, _param: click.Parameter, value: str) -> None:
        ctx.find_root().meta["output"] = value

    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="A table for people or one JSON object for scripts.",
    )(function)


def wants_json() -> bool:
    """Whether this invocation was asked for JSON."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.find_root().meta.get("output") == "json"


def layout() -> Layout:
    """The machine's layout that this invocation works on."""
    return click.get_current_context().find_object(Layout) or Layout.from_environment()


def emit(data: object, show: Callable[[], None]) -> None:
    """Answer with `data` where JSON is asked for, else call `show`."""
    if wants_json():
        click.echo(json.dumps({"ok": True, "data": data}, ensure_ascii=False))
    else:
        show()


def say(message: str) -> None:
    """Tell a person something that is no data."""
    click.echo(message, err=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `columns`: fitted to a terminal, whole when piped.

    rich lays out 5,000 rows in two seconds, and costs 50 ms to import: it does what nothing else here can,
    folding cells into a terminal's width, and only as many rows as a person looks at.
    """
    if not sys.stdout.isatty() or len(rows) > _MOST_FITTED_ROWS:
        _print_whole([columns, *rows])
        return
    from rich.console import Console

    Console(highlight=False).print(_table(columns, rows))


def _print_whole(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    click.echo("\n".join(lines))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used.

    `lazy` maps a command's name to ``module:attribute``, or to a nested mapping for a group of that
    name. A command's start-up is part of its quality: ``renet gpu grant`` must not import Flask.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, imported or not."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command `cmd_name`, imported now if it was not."""
        target = self._lazy.get(cmd_name)
        if target is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = target.partition(":")
        return cast(click.Command, getattr(importlib.import_module(module), attribute))


def fail(error: RediaccError) -> None:
    """Report `error` in the form that was asked for."""
    if "json" in _requested_output(sys.argv):
        problem = {"code": error.code, "message": error.message, "hint": error.hint}
        click.echo(json.dumps({"ok": False, "error": problem}, ensure_ascii=False))
        return
    say(f"error: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


def _requested_output(argv: Sequence[str]) -> str:
    """The value of ``-o`` in `argv`, read without the parser: an error may come before it has run."""
    for index, word in enumerate(argv):
        if word in {"-o", "--output"}:
            return "".join(argv[index + 1 : index + 2])
        if word.startswith(("-ojson", "--output=")):
            return word
    return ""


def run(command: click.Command, prog_name: str) -> None:
    """Run `command` as the process: print its errors and exit with its status."""
    try:
        # no-color.org: set and not empty, whatever the value.
        color = False if os.environ.get("NO_COLOR") else None
        status = command.main(prog_name=prog_name, standalone_mode=False, color=color)
    except click.exceptions.Abort:
        say("interrupted")
        status = 130
    except click.UsageError as error:
        hint = f"{error.ctx.command_path} --help shows how it is used" if error.ctx else ""
        fail(UsageError(error.format_message(), hint))
        status = UsageError.exit_status
    except RediaccError as error:
        fail(error)
        status = error.exit_status
    except BrokenPipeError:
        sys.stderr.close()
        status = 1
    sys.exit(status if isinstance(status, int) else 0)

"""Writes a man page for each command: ``python3 -m scripts.man_pages DIRECTORY``. Needs click-man.

click-man's own program knows neither commands that are imported when they are used nor hidden options, so
only its page is used.
"""

import re
import sys
from pathlib import Path

import click
from click_man.man import ManPage

from grants_cli.rdc import rdc
from machine_setup.renet import renet
from scripts.generate_docs import walk
from spec import __version__


def main() -> None:
    """Write the pages."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for program in (rdc, renet):
        for path, command in walk(program.name or "", program):
            (directory / f"{path.replace(' ', '-')}.1").write_text(str(_page(path, command)))


def _page(path: str, command: click.Command) -> ManPage:
    context = click.Context(command, info_name=path, help_option_names=["-h", "--help"])
    page = ManPage(path)
    page.version = __version__
    page.short_help = command.get_short_help_str(100)
    # click keeps the lines of a paragraph that begins with a backspace; so does a man page between these.
    page.description = re.sub(r"\x08\n(.*?)(?=\n\n|\Z)", r".nf\n\1\n.fi", command.help or "", flags=re.DOTALL)
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    records = [option.get_help_record(context) for option in command.get_params(context)]
    page.options = [record for record in records if record]
    if isinstance(command, click.Group):
        children = {name: command.get_command(context, name) for name in command.list_commands(context)}
        page.commands = [(name, child.get_short_help_str(100)) for name, child in children.items() if child]
    return page


if __name__ == "__main__":
    main()

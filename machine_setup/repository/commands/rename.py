"""``renet repo rename``: a repository gets another name."""

import click

from grants_cli import complete
from grants_cli.refs import Ref
from machine_setup.repository import rename as renaming
from machine_setup.repository.commands.options import described
from spec.console import emit, layout, output_option


@click.command("rename")
@click.argument("name", shell_complete=complete.repository)
@click.argument("new_name")
@output_option
def rename(name: str, new_name: str) -> None:
    """Call the repository NAME by NEW_NAME from now on. Its identity, its data and its grants stay.

    A daemon that renet made must be stopped first. That of an adopted repository must name the new plugin.

    \b
    renet repo rename gpu-a team-a:train
    """
    repository = renaming.rename(layout(), name, Ref.parse(new_name))

    def show() -> None:
        click.echo(f"{name} is {repository.ref} now ({repository.guid}); its grants stay")
        if not repository.managed:
            plugin = layout().plugin_socket(repository.slug).stem
            click.echo(f"its daemon.json must name the plugin {plugin}: renet repo repair {repository.ref}")

    emit(described(repository), show)

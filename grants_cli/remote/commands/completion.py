"""``rdc completion``: the shell's half of completion, and the fetching of names for ours."""

import click

from grants_cli.remote import cache, fleet, locate, machines
from grants_cli.remote.commands.gpu import status_of
from grants_cli.remote.machines import Machine

_RC = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_RC)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    eval "$(rdc completion bash)"      in ~/.bashrc; zsh the same in ~/.zshrc
    rdc completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    kind = get_completion_class(shell)
    assert kind  # noqa: S101 - click knows the three shells
    click.echo(kind(root.command, {}, "rdc", "_RDC_COMPLETE").source())


@click.command(cache.REFRESH, hidden=True)
def refresh() -> None:
    """Ask all machines for the names that completion offers."""
    for _ in fleet.each(machines.read().all(), _names):
        pass


def _names(machine: Machine) -> None:
    locate.repositories(machine)
    status_of(machine, locate.TIMEOUT)

"""The command that prints a program's completion script, which both programs have."""

import click

_SHELLS = ("bash", "zsh", "fish")


def completion_command(program: str) -> click.Command:
    """``completion SHELL`` for `program`."""

    @click.command("completion", help=_HELP.format(program=program))
    @click.argument("shell", type=click.Choice(_SHELLS))
    @click.pass_context
    def completion(ctx: click.Context, shell: str) -> None:
        from click.shell_completion import get_completion_class

        kind = get_completion_class(shell)
        assert kind  # noqa: S101 - click knows the three shells
        variable = f"_{program.upper()}_COMPLETE"
        click.echo(kind(ctx.find_root().command, {}, program, variable).source())

    return completion


_HELP = """Print the completion script for a shell.

\b
eval "$({program} completion bash)"      in ~/.bashrc; zsh the same in ~/.zshrc
{program} completion fish | source       in ~/.config/fish/config.fish
"""

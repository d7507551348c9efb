"""``rdc machine setup`` and ``rdc machine doctor``."""

from pathlib import Path

import click

from grants_cli.remote import answers, views
from grants_cli.remote.commands import many
from grants_cli.remote.machines import Machine
from grants_cli.remote.renet import Call, ask
from spec.console import output_option, say


@click.command("setup")
@many.machines_argument
@click.option(
    "--wheelhouse",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of wheels to install from, for a machine without a package index.",
)
@click.option(
    "--install-nvidia-toolkit",
    "toolkit",
    type=click.Choice(["auto", "true", "false"]),
    default="auto",
    show_default=True,
    help="Whether renet setup installs the NVIDIA Container Toolkit.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@many.timeout_option(None)
@output_option
def setup(
    *,
    names: tuple[str, ...],
    everywhere: bool,
    wheelhouse: Path | None,
    toolkit: str,
    dry_run: bool,
    timeout: float | None,
) -> None:
    """Install or upgrade renet on machines, then detect their GPUs and publish their devices.

    A machine needs SSH, sudo and Python 3.11. The version it had stays until the new one works, and comes
    back when that does not. Doing it again does only what is left to do.

    \b
    rdc machine setup lab
    rdc machine setup lab --wheelhouse wheels/
    rdc machine setup --all --dry-run
    """
    from grants_cli.remote import setup as setting_up  # help needs none of it

    targets = many.chosen(names, everywhere)
    what = setting_up.package(wheelhouse)
    options = setting_up.Options(toolkit, dry_run)

    def work(machine: Machine) -> dict[str, object]:
        prefix = f"{machine}: " if len(targets) > 1 else ""
        return setting_up.set_up(machine, what, options, timeout, lambda line: say(f"{prefix}{line}"))

    def show(machine: Machine, data: dict[str, object]) -> None:
        version = data["release"]
        click.echo(
            f"{machine}: would run renet {version}" if dry_run else f"{machine}: renet {version} is set up"
        )

    many.on_each(targets, work, show)


@click.command("doctor")
@many.machines_argument
@click.option("-v", "--verbose", is_flag=True, help="Show what is in order, too.")
@many.timeout_option(120)
@output_option
@click.pass_context
def doctor(
    ctx: click.Context, names: tuple[str, ...], everywhere: bool, verbose: bool, timeout: float | None
) -> None:
    """Look for what makes machines, and the repositories on them, unsafe or broken: each with its fix.

    The exit status is 1 when there is a failure anywhere.

    \b
    rdc machine doctor lab
    rdc machine doctor --all -v
    """
    sick = []
    call = Call(("doctor",), also=frozenset({1}))

    def work(machine: Machine) -> answers.Record:
        found = answers.record(ask(machine, call, timeout))
        if found.get("healthy") is not True:
            sick.append(machine)
        return found

    many.on_each(
        many.chosen(names, everywhere),
        work,
        lambda machine, found: views.doctor(machine.name, found, verbose),
    )
    if sick:
        ctx.exit(1)

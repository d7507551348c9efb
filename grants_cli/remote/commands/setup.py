"""``rdc machine setup`` and ``rdc machine doctor``."""

from pathlib import Path

import click

from grants_cli.remote import views
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
    from grants_cli.remote import setup as setting_up  # noqa: PLC0415 - help needs none of it

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
@many.timeout_option(120)
@output_option
def doctor(names: tuple[str, ...], everywhere: bool, timeout: float | None) -> None:
    """Check machines for what makes them unsafe or broken, each finding with its fix."""

    def work(machine: Machine) -> object:
        return ask(machine, Call(("doctor",)), timeout)

    many.on_each(many.chosen(names, everywhere), work, _show_doctor)


def _show_doctor(machine: Machine, data: object) -> None:
    click.echo(f"{machine}:")
    views.plain(data, "  ")

"""``renet setup``."""

import os
from pathlib import Path

import click

from machine_setup.setup.options import NVIDIA_REPOSITORY, ToolkitMode
from spec.console import layout, output_option
from spec.errors import CommandFailedError


@click.command("setup")
@click.option(
    "--install-nvidia-toolkit",
    "toolkit",
    type=click.Choice([mode.value for mode in ToolkitMode]),
    default=ToolkitMode.AUTO.value,
    show_default=True,
    help="auto installs it where an NVIDIA GPU is; false also withdraws the NVIDIA spec that set-up wrote.",
)
@click.option(
    "--nvidia-repository",
    "repository",
    metavar="URL",
    envvar="REDIACC_NVIDIA_REPOSITORY",
    default=NVIDIA_REPOSITORY,
    show_default=True,
    show_envvar=True,
    help="Where the toolkit's packages come from: a mirror, on a machine without the internet.",
)
@click.option("--dry-run", is_flag=True, help="Print the exact differences and commands, and change nothing.")
@output_option
def setup(toolkit: str, repository: str, dry_run: bool) -> None:
    """Detect this machine's GPUs, publish them as CDI devices and record them.

    Run it again whenever GPUs or drivers change: it changes only what differs.

    \b
    renet setup --dry-run
    renet setup
    renet setup --install-nvidia-toolkit false
    """
    where = layout()
    if where.root == Path("/") and os.geteuid() != 0 and not dry_run:
        raise CommandFailedError("renet setup changes the machine, and needs root", "sudo renet setup")
    from machine_setup.setup.run import set_up  # the work's imports cost more than the help

    set_up(where, ToolkitMode(toolkit), repository, dry_run=dry_run)

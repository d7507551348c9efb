"""What a person sees of a set-up: each step with its time, then what is here and what to do next."""

from collections.abc import Sequence

import click

from grants_cli.inventory import Inventory
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Made, Moment, Outcome
from spec.console import print_table, say


class Progress:
    """Tells on stderr how a set-up goes; in a dry run prints the differences on stdout."""

    def __init__(self, context: Context, steps: int, *, quiet: bool) -> None:
        self._context = context
        self._steps = steps
        self._step = 0
        self._quiet = quiet

    def __call__(self, moment: Moment, outcome: Outcome, made: Made | None) -> None:
        """One moment of the set-up."""
        if moment is Moment.STARTS:
            self._step += 1
            say(f"[{self._step}/{self._steps}] {outcome.name} …")
        elif moment is Moment.CHANGES and made is not None:
            say(f"      {'would ' if self._context.dry_run else ''}{made.change}")
            if self._context.dry_run and not self._quiet:
                click.echo(made.difference)
        elif moment is Moment.ENDS:
            say(f"      {_ending(outcome)} ({outcome.seconds:.1f} s)")
            for warning in outcome.warnings:
                say(f"      warning: {warning}")


def _ending(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"FAILED: {outcome.error.message}"
    return outcome.found or "done"


def show_summary(inventory: Inventory, next_steps: Sequence[str]) -> None:
    """The table at the end: what is here, what can be granted, what to do next."""
    if inventory.gpus:
        rows = [
            (
                str(gpu["index"]),
                gpu["name"],
                gpu["pciAddress"] or "-",
                f"{gpu['memoryMiB']} MiB" if gpu["memoryMiB"] is not None else "-",
                " ".join(filter(None, (gpu["driver"], gpu["driverVersion"]))) or "no driver",
                " ".join(gpu["devices"]) or "-",
            )
            for gpu in inventory.gpus
        ]
        print_table(("GPU", "NAME", "PCI", "MEMORY", "DRIVER", "CAN BE GRANTED AS"), rows)
    else:
        click.echo("This machine has no GPU.")
    others = {device["name"] for device in inventory.devices}
    others -= {name for gpu in inventory.gpus for name in gpu["devices"]}
    if others:
        click.echo(f"Other devices that can be granted: {' '.join(sorted(others))}")
    if next_steps:
        click.echo("Next:")
        for step in next_steps:
            click.echo(f"  - {step}")


def what_next(inventory: Inventory, warnings: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """What an operator does now: failures first, then warnings, then the grant that all this is for."""
    failures = [
        f"{outcome.name}: {outcome.error.message}. {outcome.error.hint}".rstrip()
        for outcome in outcomes
        if outcome.error is not None
    ]
    steps = list(dict.fromkeys([*failures, *warnings]))
    if inventory.devices:
        example = inventory.gpus[0]["devices"][:1] if inventory.gpus else []
        name = example[0] if example else inventory.devices[0]["name"]
        steps.append(f"give a device to a repository: renet gpu grant REPO --device {name}")
    return steps

"""``renet gpu list``: the machine's GPUs, its devices and who may use them."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from grants_cli.commands import show
from grants_cli.inventory import Inventory, read_inventory
from grants_cli.overview import Holding, holdings
from grants_cli.times import age, utc_now
from spec.console import layout, output_option, print_table, wants_json
from spec.errors import NotFoundError, UsageError


@dataclass(frozen=True)
class _View:
    inventory: Inventory | None
    #: The names of all devices that can be granted.
    names: tuple[str, ...]
    holdings: tuple[Holding, ...]


@click.command("list")
@show.watch_option
@output_option
def list_command(watch: bool) -> None:
    """Show the GPUs, every name that can be granted, who may use it and which running containers do.

    With -o json: the inventory, exactly as set-up recorded it. `renet gpu grants -o json` has the grants.

    \b
    renet gpu list
    renet gpu list --watch
    """
    if not wants_json():
        show.watch(_look, _show, again=watch)
    elif watch:
        raise UsageError("--watch and -o json do not go together here", "renet gpu grants --watch -o json")
    else:
        _print_inventory()


def _print_inventory() -> None:
    if read_inventory(layout()) is None:
        raise NotFoundError(
            f"this machine has no inventory at {layout().inventory}",
            "renet setup detects its GPUs and records them",
        )
    click.echo(layout().inventory.read_bytes(), nl=False)


def _look() -> _View:
    facts = show.facts_of(layout())
    return _View(read_inventory(layout()), facts.machine.names, holdings(facts))


def _show(view: _View) -> None:
    _show_inventory(view.inventory)
    click.echo()
    held = {holding.device for holding in view.holdings}
    free = [(name, "-", "-", "-", "-") for name in view.names if name not in held]
    rows = sorted([*map(show.row, view.holdings), *free])
    if rows:
        print_table(show.COLUMNS, rows)
    else:
        click.echo("no device can be granted: no spec in /etc/cdi defines one")
    show.paragraphs(tuple(show.warnings(view.holdings)))


def _show_inventory(inventory: Inventory | None) -> None:
    if inventory is None:
        click.echo("no inventory yet: renet setup detects the GPUs and records them")
        return
    recorded = age(inventory.generated_at, utc_now())
    click.echo(f"{inventory.hostname} ({inventory.platform}), inventory recorded {recorded}")
    if inventory.gpus:
        print_table(("#", "GPU", "DRIVER", "MEMORY", "PCI ADDRESS"), _gpus(inventory))
    else:
        click.echo("no GPU")
    show.paragraphs(inventory.warnings)


def _gpus(inventory: Inventory) -> Sequence[tuple[str, ...]]:
    return [
        (
            str(gpu["index"]),
            gpu["name"],
            " ".join(filter(None, (gpu["driver"], gpu["driverVersion"]))) or "-",
            f"{gpu['memoryMiB']} MiB" if gpu["memoryMiB"] is not None else "-",
            gpu["pciAddress"] or "-",
        )
        for gpu in inventory.gpus
    ]

"""``renet gpu status``: what the machine has and who may use it, in one answer for `rdc`."""

import json

import click

from grants_cli.commands import show
from grants_cli.inventory import read_inventory
from grants_cli.overview import holdings
from spec.console import layout, output_option


@click.command("status", hidden=True)
@output_option
def status() -> None:
    """Print the inventory, the names of all devices that can be granted and the grants that stand, as JSON.

    \b
    renet gpu status
    """
    inventory = read_inventory(layout())
    facts = show.facts_of(layout(), containers=False)
    data = {
        "inventory": inventory.to_document() if inventory else None,
        "devices": list(facts.machine.names),
        "grants": [holding.to_record() for holding in holdings(facts) if holding.is_live],
    }
    click.echo(json.dumps({"ok": True, "data": data}, ensure_ascii=False))

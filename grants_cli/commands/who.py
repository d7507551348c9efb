"""``renet gpu who``: which repositories may use a device, and which running containers do."""

from dataclasses import dataclass

import click

from grants_cli import complete
from grants_cli.commands import show
from grants_cli.devices import Devices
from grants_cli.overview import Holding, holdings
from spec.console import emit, layout, output_option, print_table
from spec.names import QualifiedName


@dataclass(frozen=True)
class _Holder:
    holding: Holding
    #: The node that makes the device that it holds the same GPU; empty when it holds the very name.
    shared_node: str


@click.command("who")
@click.argument("name", shell_complete=complete.device)
@show.watch_option
@output_option
def who(name: str, watch: bool) -> None:
    """Show which repositories may use the device NAME, and which running containers do.

    Other names of the same GPU count: a grant of nvidia.com/gpu=all is one of nvidia.com/gpu=0 too.

    \b
    renet gpu who nvidia.com/gpu=0
    """
    device = str(QualifiedName.parse(name))

    def look() -> tuple[_Holder, ...]:
        return _holders(device)

    def tell(found: tuple[_Holder, ...]) -> None:
        _show(device, found)

    show.watch(look, tell, again=watch)


def _holders(device: str) -> tuple[_Holder, ...]:
    facts = show.facts_of(layout())
    found = holdings(facts)
    if not any(holding.device == device for holding in found):
        facts.machine.check([device])
    nodes = {other: _shared_node(facts.machine, device, other) for other in {each.device for each in found}}
    return tuple(
        _Holder(holding, nodes[holding.device])
        for holding in found
        if holding.device == device or nodes[holding.device]
    )


def _shared_node(machine: Devices, one: str, other: str) -> str:
    if one == other or one not in machine or other not in machine:
        return ""
    return machine.shared_node(one, other)


def _show(device: str, found: tuple[_Holder, ...]) -> None:
    def table() -> None:
        if found:
            print_table(show.COLUMNS, [show.row(holder.holding) for holder in found])
        else:
            click.echo(f"nobody may use {device}")
        show.paragraphs(tuple(show.warnings(holder.holding for holder in found)))

    emit({"device": device, "holders": [_record(holder) for holder in found]}, table)


def _record(holder: _Holder) -> dict[str, object]:
    return {
        **holder.holding.to_record(),
        "sharedNode": holder.shared_node or None,
        "running": list(holder.holding.running),
        "problem": holder.holding.problem or None,
    }

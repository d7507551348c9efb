"""``renet gpu list``: the machine's devices and who may use them."""

import json

import click

from grants_cli.devices import Devices
from grants_cli.store import GrantStore
from grants_cli.times import to_text, utc_now
from spec.console import layout, output_option, print_table, wants_json
from spec.errors import NotFoundError


@click.command("list")
@output_option
def list_command() -> None:
    """Show every grantable device and the repositories that may use it.

    With -o json: the inventory, exactly as it was recorded.
    """
    if wants_json():
        _print_inventory()
        return
    store, now = GrantStore(layout()), utc_now()
    names = store.read_register().by_guid
    rows: dict[str, list[tuple[str, ...]]] = {name: [] for name in Devices(layout()).names}
    for guid, grants in store.read().by_guid.items():
        holder = str(names[guid].ref) if guid in names else guid
        for grant in grants:
            until = to_text(grant.expires_at) if grant.expires_at else "-"
            rows.setdefault(grant.device, []).append(
                (
                    holder,
                    "exclusive" if grant.exclusive else "shared",
                    until if grant.is_live(now) else "expired",
                )
            )
    print_table(
        ("DEVICE", "REPOSITORY", "GRANT", "EXPIRES"),
        [(device, *cells) for device, holders in rows.items() for cells in holders or [("-", "-", "-")]],
    )


def _print_inventory() -> None:
    try:
        text = layout().inventory.read_text(encoding="utf-8")
        json.loads(text)
    except (OSError, ValueError) as error:
        raise NotFoundError(
            f"there is no readable inventory at {layout().inventory}",
            "renet setup detects the GPUs and records them",
        ) from error
    click.echo(text, nl=False)

"""``renet gpu grants``: the grants that stand at this moment."""

import click

from grants_cli.store import GrantStore
from grants_cli.times import utc_now
from spec.console import emit, layout, output_option, print_table


@click.command("grants")
@click.argument("repo", required=False)
@output_option
def grants(repo: str | None) -> None:
    """Show the grants of all repositories, or of REPO alone, without those that have expired."""
    store = GrantStore(layout())
    register = store.read_register()
    repositories = [register.get(repo)] if repo else list(register.repositories)
    held, now = store.read(), utc_now()
    live = [
        {"repository": str(repository.ref), "guid": repository.guid, **grant.to_record()}
        for repository in repositories
        for grant in held.of(repository.guid)
        if grant.is_live(now)
    ]
    rows = [
        (
            str(record["repository"]),
            str(record["device"]),
            "exclusive" if record["exclusive"] else "shared",
            str(record["expiresAt"] or "-"),
        )
        for record in live
    ]
    emit(live, lambda: print_table(("REPOSITORY", "DEVICE", "GRANT", "EXPIRES"), rows))

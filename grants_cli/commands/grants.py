"""``renet gpu grants``: the grants that stand, of one repository or all."""

import click

from grants_cli import complete
from grants_cli.commands import show
from grants_cli.overview import Holding, holdings
from grants_cli.store import GrantStore
from spec.console import emit, layout, output_option, print_table


@click.command("grants")
@click.argument("repo", required=False, shell_complete=complete.repository)
@click.option("--all", "everything", is_flag=True, help="Expired grants too.")
@show.watch_option
@output_option
def grants(repo: str | None, everything: bool, watch: bool) -> None:
    """Show the grants that stand at this moment: those of REPO, or of all repositories.

    \b
    renet gpu grants
    renet gpu grants gpu-a -o json
    """
    guid = GrantStore(layout()).read_register().get(repo).guid if repo else None

    def look() -> tuple[Holding, ...]:
        return tuple(
            holding
            for holding in holdings(show.facts_of(layout(), containers=False))
            if holding.grant and guid in {None, holding.guid} and (holding.is_live or everything)
        )

    show.watch(look, _show, again=watch)


def _show(found: tuple[Holding, ...]) -> None:
    def table() -> None:
        if found:
            print_table(show.GRANT_COLUMNS, [show.row(holding)[:-1] for holding in found])
        else:
            click.echo("no grants")
        show.paragraphs(tuple(show.warnings(found)))

    emit([holding.to_record() for holding in found], table)

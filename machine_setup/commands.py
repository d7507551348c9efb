"""``renet repo …``: the repositories of a machine."""

from pathlib import Path

import click

from grants_cli import repositories
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from spec.console import emit, layout, output_option


@click.command("adopt")
@click.argument("name")
@click.option(
    "--socket", required=True, type=click.Path(path_type=Path), help="The socket of its Docker API."
)
@click.option("--data-root", type=click.Path(path_type=Path), help="Its data root.")
@click.option("--daemon-json", type=click.Path(path_type=Path), help="Its daemon.json.")
@click.option("--guid", help="Its identity, where it has one; else a new one.")
@output_option
def adopt(
    name: str, socket: Path, data_root: Path | None, daemon_json: Path | None, guid: str | None
) -> None:
    """Register the Docker daemon of the repository NAME, which exists already.

    \b
    renet repo adopt gpu-a --socket /run/gpu-a/docker.sock
    """
    ref = Ref.parse(name)
    repositories.check_socket_lengths(layout(), ref)
    identity = repositories.parse_guid(guid) if guid else repositories.new_guid()
    usual = repositories.Places.managed(layout(), ref, identity)
    with GrantStore(layout()).transaction() as transaction:
        repository = Repository(
            identity,
            ref,
            socket.absolute(),
            (data_root or usual.data_root).absolute(),
            (daemon_json or usual.daemon_json).absolute(),
            managed=False,
            created_at=transaction.now,
        )
        repositories.add(transaction, repository, "repository-adopt")
    plugin = layout().plugin_socket(repository.slug)
    emit(
        {"guid": identity, **repository.to_record(), "plugin": plugin.stem},
        lambda: click.echo(f"adopted {ref} ({identity}); its daemon.json must name the plugin {plugin.stem}"),
    )

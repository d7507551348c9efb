"""``renet repo adopt``: a Docker daemon that exists becomes a repository."""

from pathlib import Path

import click

from grants_cli import repositories
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from machine_setup.repository import adopt as adoption
from machine_setup.repository import engine, units
from machine_setup.repository.commands.options import described
from machine_setup.repository.daemon_json import Deviation
from spec.console import emit, layout, output_option


@click.command("adopt")
@click.argument("name")
@click.option(
    "--socket", required=True, type=click.Path(path_type=Path), help="The socket of its Docker API."
)
@click.option("--data-root", type=click.Path(path_type=Path), help="Its data root. [default: what it says]")
@click.option(
    "--daemon-json", type=click.Path(path_type=Path), help="Its daemon.json. [default: what it says]"
)
@click.option("--guid", help="Its identity, where it has one; else a new one.")
@click.option("--fix", is_flag=True, help="Put its daemon.json right, and keep the old one beside it.")
@output_option
def adopt(
    name: str,
    *,
    socket: Path,
    data_root: Path | None,
    daemon_json: Path | None,
    guid: str | None,
    fix: bool,
) -> None:
    """Register the Docker daemon at a socket as the repository NAME, and say what must change in it.

    Done again for the same daemon, with --fix or without, it only looks at the configuration once more.

    \b
    renet repo adopt gpu-a --socket /run/gpu-a/docker.sock
    renet repo adopt gpu-a --socket /var/run/docker.sock --fix
    """
    ref, socket = Ref.parse(name), socket.absolute()
    repositories.check_socket_lengths(layout(), ref)
    places = adoption.places_of(socket, daemon_json and daemon_json.absolute())
    identity = repositories.parse_guid(guid) if guid else repositories.new_guid()
    with GrantStore(layout()).transaction() as transaction:
        repository = transaction.register.by_ref.get(str(ref))
        if repository is None or repository.socket != socket or repository.managed:
            repository = Repository(
                identity,
                ref,
                socket,
                data_root.absolute() if data_root else places.data_root,
                places.daemon_json,
                managed=False,
                created_at=transaction.now,
                exec_root=places.exec_root,
            )
            repositories.add(transaction, repository, "repository-adopt")
    if units.in_use(layout()):
        units.enable_shared(layout())
    repair = _repair(repository) if fix else _look(repository)

    def show() -> None:
        click.echo(f"adopted {ref} ({repository.guid})")
        for deviation in repair.deviations:
            click.echo(f"  {deviation.key}: {deviation.found}; must be {deviation.wanted}: {deviation.why}")
        if repair.changed:
            click.echo(f"changed {repository.daemon_json}; the old file is {repair.backup or 'none'}")
            if repair.drop_in:
                click.echo(f"{repair.drop_in} takes the flags away")
            click.echo("restart the daemon: systemctl restart docker; renet gate serve must run by then")
        elif repair.deviations:
            click.echo(f"to change it: renet repo adopt {ref} --socket {socket} --fix")

    emit(
        {
            **described(repository),
            "deviations": [_record(deviation) for deviation in repair.deviations],
            "changed": repair.changed,
            "backup": str(repair.backup) if repair.backup else None,
            "dropIn": str(repair.drop_in) if repair.drop_in else None,
        },
        show,
    )


def _repair(repository: Repository) -> adoption.Repair:
    return adoption.fix(layout(), repository, engine.dockerd_path())


def _look(repository: Repository) -> adoption.Repair:
    return adoption.Repair(adoption.check(layout(), repository, engine.version_or_floor()))


def _record(deviation: Deviation) -> dict[str, str]:
    return {"key": deviation.key, "found": deviation.found, "wanted": deviation.wanted, "why": deviation.why}

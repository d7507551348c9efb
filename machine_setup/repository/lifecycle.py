"""The life of a repository: made, started, stopped and deleted, each step safe to repeat."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network

from grants_cli import repositories, views
from grants_cli.refs import Ref
from grants_cli.register import Register, Repository
from grants_cli.store import GrantStore
from machine_setup.repository import daemon, daemon_json, engine, foreground, network, prepare, units
from spec.errors import CommandFailedError, RefusedError
from spec.files import replace_file
from spec.layout import Layout


@dataclass(frozen=True)
class Wishes:
    """What an operator may choose about a new repository."""

    #: The group that may use its socket; empty for root alone.
    group: str = ""
    #: Whether renet makes a network for it; without, its containers run with ``--network host``.
    bridge: bool = True
    #: Its addresses; `None` takes the first that are free.
    subnet: IPv4Network | None = None


def create(layout: Layout, ref: Ref, wishes: Wishes, dockerd: str) -> Repository:
    """Register a repository and configure its daemon; nothing of it runs yet.

    Raises `RefusedError` when something of it is taken, `NotFoundError` for a missing group, and
    `CommandFailedError` when the engine does not accept the configuration: nothing is left then.
    """
    version = check_engine(dockerd)
    repositories.check_socket_lengths(layout, ref)
    foreground.group_id(wishes.group)
    guid = repositories.new_guid()
    places = repositories.Places.managed(layout, ref, guid)
    with GrantStore(layout).transaction() as transaction:
        repository = Repository(
            guid,
            ref,
            places.socket,
            places.data_root,
            places.daemon_json,
            managed=True,
            created_at=transaction.now,
            exec_root=layout.exec_root(guid),
            group=wishes.group,
            subnet=_subnet(transaction.register, wishes),
        )
        transaction.register.with_new(repository)  # before the first file is written
        configuration = daemon_json.encode(_configuration(layout, repository, version))
        engine.validate(dockerd, configuration)
        with _undone(layout, repository):
            replace_file(places.daemon_json, configuration)
            repositories.add(transaction, repository, "repository-create")
    return repository


def check_engine(dockerd: str) -> engine.EngineVersion:
    """The version of `dockerd`; raises `RefusedError` when it is too old to have CDI."""
    version = engine.installed_version(dockerd)
    if version < engine.FLOOR:
        raise RefusedError(
            f"Docker {version} has no CDI, by which devices are granted",
            f"install Docker {engine.FLOOR.major} or newer; {engine.RECOMMENDED} or newer is recommended",
        )
    return version


def _subnet(register: Register, wishes: Wishes) -> str:
    if not wishes.bridge:
        return ""
    registered = (IPv4Network(other.subnet) for other in register.repositories if other.subnet)
    taken = (*network.routed_subnets(), *registered)
    if wishes.subnet:
        network.check_subnet(wishes.subnet, taken)
    return str(wishes.subnet or network.choose_subnet(taken))


def _configuration(
    layout: Layout, repository: Repository, version: engine.EngineVersion
) -> daemon_json.Document:
    cgroup = daemon.cgroup_of(repository.guid)
    settings = daemon_json.Settings(
        plugin=layout.plugin_socket(repository.slug).stem,
        data_root=repository.data_root,
        exec_root=layout.exec_root(repository.guid),
        cgroup_parent=cgroup.parent,
        cgroup_driver=cgroup.driver,
        network=prepare.network_of(repository),
    )
    return daemon_json.document(settings, version)


@contextmanager
def _undone(layout: Layout, repository: Repository) -> Iterator[None]:
    """Leave no file of `repository` behind when its making fails."""
    try:
        yield
    except BaseException:
        repository.daemon_json.unlink(missing_ok=True)
        views.remove(layout, repository.slug)
        raise


def start(layout: Layout, repository: Repository) -> None:
    """Start the repository's daemon under systemd, and return when it is ready.

    Raises `RefusedError` where renet does not start it, `CommandFailedError` when it does not start.
    """
    _check_managed(repository)
    if not units.in_use(layout):
        raise RefusedError(
            "systemd does not run here, and nothing else would look after the daemon",
            f"run it in the foreground: renet repo run {repository.ref}",
        )
    units.add(layout, repository)
    units.start(repository)


def stop(layout: Layout, repository: Repository) -> None:
    """End the repository's daemon and containers; fine when they do not run. Raises `CommandFailedError`."""
    _check_managed(repository)
    if units.in_use(layout):
        units.stop(repository)
    daemon.end_everything(repository)
    prepare.down(layout, repository)


def _check_managed(repository: Repository) -> None:
    if not repository.managed:
        raise RefusedError(
            f"{repository.ref} is adopted: renet did not make its daemon, and neither starts nor stops it",
            "use what it was made with (systemctl status docker)",
        )


def delete(layout: Layout, repository: Repository, *, keep_data: bool) -> None:
    """Remove the repository: what runs, its units, network, files and grants; an adopted one is unregistered.

    What fails can be repeated: the repository stays registered until everything else is gone. Raises
    `CommandFailedError`.
    """
    if repository.managed:
        stop(layout, repository)
        if units.in_use(layout):
            units.remove(layout, repository)
        _remove_files(layout, repository, keep_data)
    with GrantStore(layout).transaction() as transaction:
        repositories.delete(transaction, repository)
        # Under the lock: the view is a later namesake's otherwise.
        views.remove(layout, repository.slug)


def _remove_files(layout: Layout, repository: Repository, keep_data: bool) -> None:
    home = layout.repository_dir(repository.guid)
    for path in (
        repository.socket,
        repository.daemon_json,
        *layout.plugin_dir.glob(layout.plugin_socket(repository.slug).name),
    ):
        path.unlink(missing_ok=True)
    if keep_data or not home.exists():
        return
    try:
        shutil.rmtree(home)
    except OSError as error:
        raise CommandFailedError(
            f"cannot remove {home}: {error}", f"put it right, then repeat: renet repo delete {repository.ref}"
        ) from error


def find(layout: Layout, name: str) -> Repository:
    """The repository whose ref, or slug, is `name`; raises `NotFoundError`."""
    register = GrantStore(layout).read_register()
    return register.by_slug.get(name) or register.get(name)

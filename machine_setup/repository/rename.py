"""Renaming a repository: its identity, data and grants stay, and what is called after its name moves."""

from collections.abc import Iterator
from contextlib import contextmanager

from grants_cli import repositories, views
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.repositories import Places
from grants_cli.store import GrantStore
from machine_setup.repository import daemon, daemon_json, units
from spec.errors import RefusedError
from spec.files import replace_file
from spec.layout import Layout


def rename(layout: Layout, name: str, ref: Ref) -> Repository:
    """Call the repository `name` by `ref` from now on.

    The daemon of a managed one must not run: its sockets and its plugin are called after the name. Raises
    `NotFoundError`, `InvalidNameError`, `RefusedError` when the name is taken or the daemon runs, and
    `StorageError`; nothing has changed then.
    """
    repositories.check_socket_lengths(layout, ref)
    with GrantStore(layout).transaction() as transaction:
        old = transaction.register.get(name)
        if old.ref == ref:
            return old
        _check_stopped(old)
        places = Places(old.socket, old.data_root, old.daemon_json)
        if old.managed:
            places = Places(layout.docker_socket(ref.slug), old.data_root, layout.daemon_json(ref.slug))
        with _moved_configuration(layout, old, ref, places):
            renamed = repositories.rename(transaction, old, ref, places)
        # Under the lock: they are a later namesake's otherwise.
        views.remove(layout, old.slug)
        _remove_files(layout, old)
    if old.managed and units.in_use(layout):
        units.remove(layout, old)
        units.add(layout, renamed)
    return renamed


def _check_stopped(repository: Repository) -> None:
    if repository.managed and daemon.find(repository) is not None:
        raise RefusedError(
            f"the daemon of {repository.ref} runs, and its sockets are called after the name",
            f"stop it first: renet repo stop {repository.ref}",
        )


@contextmanager
def _moved_configuration(layout: Layout, old: Repository, ref: Ref, places: Places) -> Iterator[None]:
    """Have the daemon.json of a managed repository name the new plugin, at its new place."""
    if not old.managed:
        yield
        return
    config = dict(daemon_json.read(old.daemon_json))
    was, now = layout.plugin_socket(old.slug).stem, layout.plugin_socket(ref.slug).stem
    plugins = config.get("authorization-plugins")
    if isinstance(plugins, list):
        config["authorization-plugins"] = [now if plugin == was else plugin for plugin in plugins]
    if places.daemon_json.exists():
        raise RefusedError(f"{places.daemon_json} is there already", "see whose it is, and move it away")
    replace_file(places.daemon_json, daemon_json.encode(config))
    try:
        yield
    except BaseException:
        places.daemon_json.unlink()
        raise


def _remove_files(layout: Layout, old: Repository) -> None:
    layout.plugin_socket(old.slug).unlink(missing_ok=True)
    if old.managed:
        old.daemon_json.unlink(missing_ok=True)
        old.socket.unlink(missing_ok=True)

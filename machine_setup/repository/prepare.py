"""What must be there before a repository's daemon starts, and what goes when it has ended."""

import contextlib
import shutil
from ipaddress import IPv4Network
from pathlib import Path

from grants_cli import views
from grants_cli.register import Register, Repository
from grants_cli.store import GrantStore
from machine_setup.repository import network
from spec import view
from spec.errors import UntrustedError
from spec.layout import Layout


def network_of(repository: Repository) -> network.Network | None:
    """The network that renet makes for `repository`; `None` where the machine manages its own."""
    if not repository.subnet:
        return None
    return network.Network(network.bridge_name(repository.guid), IPv4Network(repository.subnet))


def up(layout: Layout, repository: Repository) -> None:
    """Make the directories, the view of the granted devices and the network; what is there is put right."""
    _directory(layout.data_root(repository.guid), 0o710)
    _directory(layout.repository_dir(repository.guid) / "files", 0o755)
    _directory(layout.exec_root(repository.guid), 0o700)
    _directory(layout.shim_dir(repository.guid), 0o711)
    layout.plugin_dir.mkdir(parents=True, exist_ok=True)
    # Before dockerd starts: it loads the specs then, and containers with a restart policy start at once.
    # Grants that cannot be trusted leave an empty view: everything else of the repository goes on.
    with contextlib.suppress(UntrustedError):
        refresh_views(layout, repository.slug)
    own = network_of(repository)
    if own:
        network.up(own)


def refresh_views(layout: Layout, slug: str = "") -> tuple[str, ...]:
    """Write the views of all repositories, or of the one with `slug`, anew; the slugs of those that changed.

    When the grants cannot be trusted nothing counts as granted: `UntrustedError` comes after every view has
    been emptied. Raises `BusyError` and `StorageError` too.
    """
    store = GrantStore(layout)
    try:
        with store.transaction() as transaction:
            chosen = _chosen(transaction.register, slug)
            return views.refresh(layout, chosen, transaction.grants, transaction.now)
    except UntrustedError:
        for directory in [layout.view_dir(slug)] if slug else layout.view_dir("x").parent.glob("*"):
            view.write(directory, {})
        raise


def _chosen(register: Register, slug: str) -> tuple[Repository, ...]:
    return tuple(repository for repository in register.repositories if slug in ("", repository.slug))


def down(layout: Layout, repository: Repository) -> None:
    """Remove what `up` made outside the repository's own directory."""
    own = network_of(repository)
    if own:
        network.down(own)
    for directory in (layout.exec_root(repository.guid), layout.shim_dir(repository.guid)):
        shutil.rmtree(directory, ignore_errors=True)


def _directory(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)

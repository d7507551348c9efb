"""Keeping every repository's view of the machine's specs in step with its grants.

The order makes a crash harmless: a device leaves the view before its grant goes, and enters after its
grant stands. The view is then too narrow until the next refresh, never too wide.
"""

import contextlib
import shutil
from collections.abc import Iterable
from datetime import datetime

from grants_cli.grants import Grants
from grants_cli.register import Repository
from grants_cli.specs import machine_specs
from spec import view
from spec.errors import StorageError
from spec.layout import Layout
from spec.registry import Registry


def refresh(
    layout: Layout, repositories: Iterable[Repository], grants: Grants, now: datetime
) -> tuple[str, ...]:
    """Write the view of each of `repositories`; the slugs of those that changed. Raises `StorageError`."""
    specs = machine_specs(layout)
    return tuple(
        repository.slug
        for repository in repositories
        if _write(layout, repository, specs, grants.live(repository.guid, now))
    )


def narrow(layout: Layout, repositories: Iterable[Repository], before: Grants, after: Grants) -> None:
    """Take out of the views what a change from `before` to `after` takes away; raises `StorageError`.

    A device that is granted before and after counts as long as one of its grants is live.
    """
    for repository in repositories:
        if _names(before, repository) - _names(after, repository):
            kept = _names(after, repository) & _names(before, repository)
            _write(layout, repository, machine_specs(layout), kept)


def _names(grants: Grants, repository: Repository) -> frozenset[str]:
    return frozenset(grant.device for grant in grants.of(repository.guid))


def _write(layout: Layout, repository: Repository, specs: Registry, granted: frozenset[str]) -> bool:
    directory = layout.view_dir(repository.slug)
    try:
        return view.write(directory, view.cut(specs, granted))
    except OSError as error:
        raise StorageError(
            f"cannot write the view {directory}: {error.strerror}",
            "put it right, then renet repo views writes it anew",
        ) from error


def remove(layout: Layout, slug: str) -> None:
    """Remove the view of the repository `slug`, which is gone."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(layout.view_dir(slug))

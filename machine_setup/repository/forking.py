"""Forking a repository: its data as of one moment, under a new identity."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grants_cli.refs import Ref
from grants_cli.register import Repository
from machine_setup.repository import copy, fork, freeze, lifecycle
from spec.errors import RefusedError
from spec.layout import Layout


@dataclass(frozen=True)
class Forked:
    """What a fork came to."""

    repository: Repository
    #: Whether the file system shared the blocks of the original's files.
    shares_blocks: bool
    #: How many processes of the original stood still meanwhile.
    held_still: int


def fork_repository(
    layout: Layout,
    original: Repository,
    ref: Ref,
    wishes: lifecycle.Wishes,
    *,
    dockerd: str,
    progress: copy.Progress,
) -> Forked:
    """Make the repository `ref` with a copy of the data of `original`, which may be running.

    It has no grants, and nothing of it runs. Raises `RefusedError`, `CommandFailedError`: nothing of it is
    left then.
    """
    if not original.managed:
        raise RefusedError(
            f"{original.ref} is adopted: its daemon's data is not renet's to copy",
            "fork a repository that renet created",
        )
    repository = lifecycle.create(layout, ref, wishes, dockerd)
    source, target = (layout.repository_dir(each.guid) for each in (original, repository))
    with _deleted_on_failure(layout, repository):
        shares, still = False, 0
        if source.exists():
            with freeze.frozen(original) as still:
                shares = copy.copy_tree(source, target, progress)
            fork.make_own(source, target)
    return Forked(repository, shares, still)


@contextmanager
def _deleted_on_failure(layout: Layout, repository: Repository) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(layout.repository_dir(repository.guid), ignore_errors=True)
        lifecycle.delete(layout, repository, keep_data=False)
        raise

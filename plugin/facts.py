"""Answers to the judge's questions, from the repository's daemon and the kernel."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from plugin import kernel
from plugin.context import (
    Answer,
    BuildQuery,
    Builds,
    ContainerQuery,
    PathQuery,
    Query,
    Unanswered,
    VolumeQuery,
)
from plugin.daemon import DaemonClient
from plugin.patience import patiently


def answers(
    queries: tuple[Query, ...], daemon: Path, build_problem: Callable[[], str], host: Path = Path("/")
) -> dict[Query, Answer]:
    """An answer to each of `queries`.

    `daemon` is the API socket of the repository's daemon; `build_problem` says what leaves its builds open;
    `host` is where the daemon's file system is seen.
    Never raises for what the daemon does: what could not be learnt is `Unanswered`. Once it has not answered
    one question, it is not asked the others: a request never waits longer than one of them may take.
    """
    found: dict[Query, Answer] = {}
    with DaemonClient(daemon) as client:
        failed: Unanswered | None = None
        for query in queries:
            if isinstance(query, PathQuery):
                found[query] = patiently(daemon, partial(kernel.place, query.path, str(host)))
            elif isinstance(query, BuildQuery):
                found[query] = Builds(build_problem())
            else:
                found[query] = failed or _ask(client, query)
                answer = found[query]
                failed = answer if isinstance(answer, Unanswered) else None
    return found


def _ask(client: DaemonClient, query: ContainerQuery | VolumeQuery) -> Answer:
    return client.container(query.ref) if isinstance(query, ContainerQuery) else client.volume(query.name)

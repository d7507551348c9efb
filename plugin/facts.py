"""Answers to the judge's questions, from the repository's daemon and the kernel."""

from pathlib import Path

from plugin import kernel
from plugin.context import Answer, ContainerQuery, PathQuery, Query, Unanswered
from plugin.daemon import DaemonClient


def answers(queries: tuple[Query, ...], daemon: Path) -> dict[Query, Answer]:
    """An answer to each of `queries`; `daemon` is the API socket of the repository's daemon.

    Never raises: what could not be learnt is `Unanswered`. Once the daemon has not answered one question, it
    is not asked the others: a request never waits longer than one of them may take.
    """
    found: dict[Query, Answer] = {}
    with DaemonClient(daemon) as client:
        failed: Unanswered | None = None
        for query in queries:
            if isinstance(query, PathQuery):
                found[query] = kernel.place(query.path)
            elif failed is not None:
                found[query] = failed
            else:
                answer = (
                    client.container(query.ref)
                    if isinstance(query, ContainerQuery)
                    else client.volume(query.name)
                )
                failed = answer if isinstance(answer, Unanswered) else None
                found[query] = answer
    return found

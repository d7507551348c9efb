"""Asking the kernel without waiting for ever.

A look at a path can hang for as long as a network file system does not answer, and in the gate one
process looks for all repositories. So it looks in threads, a few for each repository: whose paths hang
waits alone.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from plugin.context import Answer, Unanswered

if TYPE_CHECKING:
    from gevent.threadpool import ThreadPool

#: Seconds after which a path has no answer.
TIMEOUT = 5.0
# : Looks of one repository that may hang at a time; further ones wait for their turn, and no longer than
# the others.
THREADS = 4

_pools: "dict[Path, ThreadPool]" = {}


def patiently(repository: Path, look: Callable[[], Answer]) -> Answer:
    """What `look` answers, or that there is no answer in time. `repository` is the API socket of whose it is.

    In a command, where nobody else waits, it is called as it is.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        return look()
    from gevent import Timeout  # commands must start without it
    from gevent.threadpool import ThreadPool

    if repository not in _pools:
        _pools[repository] = ThreadPool(THREADS)
    timer = Timeout(TIMEOUT)
    try:
        with timer:
            answer: Answer = _pools[repository].apply(look)
            return answer
    except Timeout as late:
        if late is not timer:
            raise
        return Unanswered("the file system does not answer")

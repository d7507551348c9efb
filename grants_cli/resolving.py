"""Waiting until a repository's daemon knows what has just been granted.

dockerd watches its directory of specs. It has read the change within milliseconds, but not necessarily before
the command that made it has ended; and the very next ``docker run`` shall work.
"""

import re
import time
from collections.abc import Collection, Mapping

from grants_cli.register import Repository
from spec import unix_http
from spec.errors import UnreachableError

#: Seconds. What a daemon does not know by then it will not know by itself.
PATIENCE = 3.0
_POLL = 0.02
#: Seconds for an engine before 28.2, which does not list its devices (API 1.50).
_UNSEEN = 0.2


def wait_until_known(repository: Repository, names: Collection[str], patience: float = PATIENCE) -> str:
    """Return when the daemon of `repository` knows all of `names`, or does not run.

    The answer is empty then; else it says what is wrong, `patience` seconds later at most.
    """
    if not repository.socket.exists():
        return ""
    deadline = time.monotonic() + patience
    while missing := _missing(repository, names, patience):
        if time.monotonic() > deadline:
            return f"the daemon of {repository.ref} does not know {', '.join(sorted(missing))}"
        time.sleep(_POLL)
    return ""


def _missing(repository: Repository, names: Collection[str], patience: float) -> set[str]:
    """Those of `names` that the daemon does not list; none when there is nobody to ask."""
    try:
        info = unix_http.get_object(repository.socket, "/info", patience)
    except UnreachableError:
        return set()
    if not _lists_devices(info):
        time.sleep(_UNSEEN)
        return set()
    listed = info.get("DiscoveredDevices")
    known = listed if isinstance(listed, list) else []
    return set(names) - {str(entry.get("ID")) for entry in known if isinstance(entry, dict)}


def _lists_devices(info: Mapping[str, object]) -> bool:
    version = re.match(r"(\d+)\.(\d+)", str(info.get("ServerVersion")))
    return version is not None and (int(version[1]), int(version[2])) >= (28, 2)

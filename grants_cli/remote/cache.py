"""What completion may offer at once: names that machines told us lately, in the user's cache directory."""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from grants_cli.remote import own
from spec.files import replace_file

#: Older than this, names are offered once more but fetched anew in the background.
FRESH_SECONDS = 60
#: Older than this, names are not offered.
LONGEST_SECONDS = 24 * 3600
#: The hidden command that fetches the names anew.
REFRESH = "refresh-completion"
_lock = threading.Lock()


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the names are kept, by the XDG base directory specification."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "rediacc/completion.json"


def remember(
    machine: str, repositories: Sequence[str] | None = None, devices: Sequence[str] | None = None
) -> None:
    """Keep what `machine` told. Losing it costs a suggestion, so no failure to write is an error."""
    names = {"repositories": repositories, "devices": devices}
    with _lock, contextlib.suppress(OSError):
        known = _read()
        entry = {
            **known.get(machine, {}),
            **{key: list(value) for key, value in names.items() if value is not None},
        }
        document = {**known, machine: {**entry, "at": time.time()}}
        replace_file(path(), json.dumps(document).encode(), mode=0o600)


def names(kind: str, machine: str = "") -> dict[str, list[str]]:
    """The ``repositories`` or ``devices`` by machine, of one or all; old ones are fetched anew meanwhile."""
    known = _read()
    now = time.time()
    wanted = {name: entry for name, entry in known.items() if not machine or name == machine}
    ages = [now - float(str(entry.get("at", 0))) for entry in wanted.values()]
    if not ages or max(ages) > FRESH_SECONDS:
        _refresh()
    return {
        name: [str(value) for value in listed]
        for name, entry in wanted.items()
        if now - float(str(entry.get("at", 0))) < LONGEST_SECONDS
        and isinstance(listed := entry.get(kind), list)
    }


def _read() -> dict[str, dict[str, object]]:
    try:
        document = json.loads(path().read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: entry for name, entry in document.items() if isinstance(entry, dict)}


def _refresh() -> None:
    """Fetch the names in the background, unless that was begun a moment ago: no shell waits for a network."""
    mark = path().with_suffix(".refreshing")
    with contextlib.suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        try:
            if time.time() - mark.stat().st_mtime < FRESH_SECONDS / 4:
                return
        except FileNotFoundError:
            pass
        mark.touch()
        environ = {key: value for key, value in os.environ.items() if key != "_RDC_COMPLETE"}
        subprocess.Popen(
            [*own.program("rdc", "grants_cli.rdc"), REFRESH],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environ,
        )

"""The decision log: one JSON line for each decision that denied or used a grant, in a file and in the
journal.

The denial's message carries an id that finds the line. A client can make as many denials as it likes, so
the log is bounded: it is rotated by size and keeps a fixed number of old files. Neither a full disk nor a
missing journal changes a decision or delays it.
"""

import contextlib
import json
import logging
import os
import re
import secrets
import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from urllib.parse import parse_qsl

from grants_cli.times import to_text
from plugin.decide import Decision, Request
from plugin.denial import DenialError
from plugin.routes import route

LARGEST_FILE = 16 * 2**20
OLD_FILES = 4
JOURNAL_SOCKET = Path("/run/systemd/journal/socket")
_LONGEST = 1000
_NOTICE, _INFO = 5, 6

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One line: who asked for what, and what the gate said."""

    time: str
    id: str
    repository: str
    decision: str
    method: str
    path: str
    rule: str
    field: str
    message: str
    devices: tuple[str, ...]
    container: str
    client: str


def entry(moment: datetime, repository: str, request: Request, decision: Decision) -> Entry:
    """The line for `decision` on `request`. Its id is new; what a client wrote is cut to a bounded length."""
    denial = decision.denial
    client = " ".join(filter(None, (request.user, request.headers.get("User-Agent", ""))))
    return Entry(
        time=to_text(moment),
        id=secrets.token_hex(4),
        repository=repository,
        decision="deny" if denial else "allow",
        method=_cut(request.method),
        path=_cut(request.target),
        rule=denial.rule if denial else "",
        field=_cut(denial.field) if denial else "",
        message=_cut(denial.message) if denial else "",
        devices=tuple(map(_cut, decision.devices[:50])),
        container=_cut(_container(request)),
        client=_cut(client),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _container(request: Request) -> str:
    try:
        operation = route(request.method, request.target)
    except DenialError:
        return ""
    if operation.route == "POST /containers/create":
        return dict(parse_qsl(operation.query)).get("name", "")
    return operation.name if operation.route.split()[1].startswith("/containers/") else ""


class Journal:
    """Writes entries to the file at `path` and to systemd's journal where there is one.

    One process at a time writes; while a service is handed over there are two, and whichever finds that the
    file has been moved on opens the new one.
    """

    def __init__(self, path: Path, journal: Path = JOURNAL_SOCKET) -> None:
        self._path = path
        self._journal = journal
        self._file: _BoundedFile | None = None

    def write(self, line: Entry) -> None:
        """Write `line`. Never raises: a decision stands whether or not it could be logged."""
        record = asdict(line)
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
                self._file = _BoundedFile(self._path)
            self._file.write(json.dumps(record))
        except OSError as error:
            _logger.warning("the decision log cannot be written: %s", error)
        with contextlib.suppress(OSError):
            self._tell_journal(line)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _tell_journal(self, line: Entry) -> None:
        # systemd's native protocol: a datagram of KEY=value lines. No value may hold a line break.
        denied = line.decision == "deny"
        said = f"{line.rule}: {line.message}" if denied else f"used {', '.join(line.devices)}"
        fields = {
            "MESSAGE": f"{line.repository} {line.decision} {line.method} {line.path} {said} [{line.id}]",
            "PRIORITY": str(_NOTICE if denied else _INFO),
            "SYSLOG_IDENTIFIER": "rediacc-gate",
            "REDIACC_DECISION": json.dumps(asdict(line)),
            "REDIACC_ID": line.id,
            "REDIACC_REPOSITORY": line.repository,
            "REDIACC_RULE": line.rule,
        }
        message = "".join(f"{key}={_CONTROL.sub(' ', value)}\n" for key, value in fields.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.setblocking(False)
            journal.sendto(message.encode("utf-8", "replace"), str(self._journal))


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class _Handler(RotatingFileHandler):
    """One that lets its caller know what went wrong."""

    def handleError(self, _record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        raise  # noqa: PLE0704 - called by logging while it handles the exception


class _BoundedFile:
    """An append-only file that is rotated by size, by whoever holds it first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handler = _Handler(
            path, maxBytes=LARGEST_FILE, backupCount=OLD_FILES, encoding="utf-8", delay=True
        )

    def close(self) -> None:
        self._handler.close()

    def write(self, line: str) -> None:
        stream = self._handler.stream
        if stream is not None and self._was_moved(stream.fileno()):
            self._handler.close()
            self._handler.stream = None  # opened again by the next record
        self._handler.handle(logging.makeLogRecord({"msg": "%s", "args": (line,)}))

    def _was_moved(self, descriptor: int) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return True
        ours = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

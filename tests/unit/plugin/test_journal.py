"""The decision log: a line for each denial, bounded, and never in the way."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugin import journal
from plugin.decide import Decision, Request
from plugin.denial import Denial
from plugin.journal import Journal, entry


@pytest.fixture
def new_journal(tmp_path: Path) -> Iterator[Callable[..., Journal]]:
    """Makes journals, without systemd's unless it is given, and closes them."""
    with ExitStack() as stack:

        def make(path: Path, systemds: Path = tmp_path / "none") -> Journal:
            made = Journal(path, systemds)
            stack.callback(made.close)
            return made

        yield make


NewJournal = Callable[..., Journal]
NOW = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)
DENIAL = Denial("privileged", "--privileged is refused", "Leave it out", "HostConfig.Privileged")
REQUEST = Request(
    "POST", "/v1.51/containers/create?name=web", b"{}", {"User-Agent": "Docker-Client/28.5.2"}, "ann"
)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_everything(new_journal: NewJournal, tmp_path: Path) -> None:
    log = new_journal(tmp_path / "log/gate.jsonl")
    line = entry(NOW, "gpu-a", REQUEST, Decision(False, DENIAL, ("nvidia.com/gpu=0",)))
    log.write(line)
    assert lines(tmp_path / "log/gate.jsonl") == [
        {
            "time": "2026-01-31T10:00:00Z",
            "id": line.id,
            "repository": "gpu-a",
            "decision": "deny",
            "method": "POST",
            "path": "/v1.51/containers/create?name=web",
            "rule": "privileged",
            "field": "HostConfig.Privileged",
            "message": "--privileged is refused",
            "devices": ["nvidia.com/gpu=0"],
            "container": "web",
            "client": "ann Docker-Client/28.5.2",
        }
    ]


def test_ids_are_new_each_time() -> None:
    ids = {entry(NOW, "a", REQUEST, Decision(True)).id for _ in range(1000)}
    assert len(ids) == 1000


@pytest.mark.parametrize(
    ("target", "container"),
    [("/containers/web/start", "web"), ("/containers/create", ""), ("/images/a/push", ""), ("/%zz", "")],
)
def test_the_container_is_named(target: str, container: str) -> None:
    assert entry(NOW, "a", Request("POST", target, None), Decision(True)).container == container


def test_what_a_client_wrote_cannot_forge_or_fill_a_line(new_journal: NewJournal, tmp_path: Path) -> None:
    forged = '\n{"decision":"allow"}\u2028' + "x" * 100_000
    request = Request("POST\n", "/" + forged, None, {"User-Agent": forged}, forged)
    log = new_journal(tmp_path / "gate.jsonl")
    log.write(entry(NOW, "a", request, Decision(False, Denial("unreadable-request", forged, "", forged))))
    text = (tmp_path / "gate.jsonl").read_text()
    assert text.count("\n") == 1
    assert len(text) < 20_000


def test_the_file_is_bounded(
    new_journal: NewJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_FILE", 10_000)
    log = new_journal(tmp_path / "gate.jsonl")
    line = entry(NOW, "a", REQUEST, Decision(False, DENIAL))
    for _ in range(1000):
        log.write(line)
    files = sorted(tmp_path.iterdir())
    assert len(files) == journal.OLD_FILES + 1
    assert all(path.stat().st_size <= 10_000 for path in files)
    # Nothing is cut in the middle.
    assert all(lines(path) for path in files)


def test_a_file_that_is_moved_on_is_opened_anew(new_journal: NewJournal, tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    log = new_journal(path)
    line = entry(NOW, "a", REQUEST, Decision(False, DENIAL))
    log.write(line)
    path.rename(tmp_path / "old")
    log.write(line)
    path.unlink()
    log.write(line)
    assert len(lines(path)) == 1
    assert len(lines(tmp_path / "old")) == 1


def test_two_writers_lose_nothing(new_journal: NewJournal, tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    writers = [new_journal(path) for _ in range(2)]
    line = entry(NOW, "a", REQUEST, Decision(False, DENIAL))
    for _ in range(50):
        for writer in writers:
            writer.write(line)
    assert len(lines(path)) == 100


def test_no_place_to_write_is_no_reason_to_fail(new_journal: NewJournal, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    new_journal(tmp_path / "file/gate.jsonl").write(entry(NOW, "a", REQUEST, Decision(True)))


def test_systemds_journal_is_told_the_same(new_journal: NewJournal, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    line = entry(NOW, "gpu-a", REQUEST, Decision(False, DENIAL))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(2)
        new_journal(tmp_path / "gate.jsonl", path).write(line)
        message = server.recv(65536).decode()
    fields = dict(field.split("=", 1) for field in message.splitlines())
    assert fields["REDIACC_ID"] == line.id
    assert fields["REDIACC_REPOSITORY"] == "gpu-a"
    assert fields["PRIORITY"] == "5"
    assert json.loads(fields["REDIACC_DECISION"]) == lines(tmp_path / "gate.jsonl")[0]


def test_a_full_journal_delays_nobody(new_journal: NewJournal, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        log = new_journal(tmp_path / "gate.jsonl", path)
        for _ in range(500):  # nobody reads
            log.write(entry(NOW, "a", REQUEST, Decision(False, DENIAL)))
    assert len(lines(tmp_path / "gate.jsonl")) == 500

"""A grant returns when the repository's daemon knows the device, and waits for none that cannot answer."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import pytest

from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.resolving import wait_until_known

NAME = "nvidia.com/gpu=0"


def repository(path: Path) -> Repository:
    return Repository(
        "g", Ref.parse("gpu-a"), path, path, path, managed=True, created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )


@contextmanager
def daemon(path: Path, answers: Iterator[Mapping[str, object]]) -> Iterator[list[float]]:
    """A daemon whose ``/info`` gives one of `answers` after the other; the times at which it was asked."""
    asked: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(time.monotonic())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(next(answers)).encode())

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None: ...

    with ThreadingUnixStreamServer(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield asked
        server.shutdown()


def info(*names: str, version: str = "28.5.2") -> dict[str, object]:
    devices = [{"Source": "cdi", "ID": name} for name in names]
    return {"ServerVersion": version, "CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": devices or None}


def test_it_waits_until_the_daemon_lists_the_device(tmp_path: Path) -> None:
    answers = iter([info(), info("other/x=1"), info(NAME), info(NAME)])
    with daemon(tmp_path / "s", answers) as asked:
        assert wait_until_known(repository(tmp_path / "s"), [NAME]) == ""
    assert len(asked) == 3


def test_it_says_when_the_daemon_does_not_come_to_know_it(tmp_path: Path) -> None:
    def never() -> Iterator[Mapping[str, object]]:
        while True:
            yield info()

    with daemon(tmp_path / "s", never()):
        said = wait_until_known(repository(tmp_path / "s"), [NAME], patience=0.2)
    assert said == f"the daemon of gpu-a does not know {NAME}"


def test_an_engine_that_lists_nothing_is_given_a_moment(tmp_path: Path) -> None:
    old = {"ServerVersion": "26.1.5+dfsg1", "CDISpecDirs": ["/etc/cdi"]}
    begin = time.monotonic()
    with daemon(tmp_path / "s", iter([old])):
        assert wait_until_known(repository(tmp_path / "s"), [NAME]) == ""
    assert time.monotonic() - begin >= 0.2


@pytest.mark.parametrize("there", [False, True])
def test_a_daemon_that_does_not_run_is_not_waited_for(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "s"
    if there:
        path.touch()
    begin = time.monotonic()
    assert wait_until_known(repository(path), [NAME]) == ""
    assert time.monotonic() - begin < 1

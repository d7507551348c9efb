"""Asking a daemon: a server on a real socket that answers as dockerd does, or otherwise."""

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from plugin import daemon
from plugin.context import (
    Absent,
    BuildQuery,
    Builds,
    Container,
    ContainerQuery,
    PathQuery,
    Place,
    Unanswered,
    Volume,
    VolumeQuery,
)
from plugin.facts import answers

Reply = Callable[[str], tuple[int, bytes]]


@contextmanager
def daemon_at(path: Path, reply: Reply) -> Iterator[list[str]]:
    """A server that answers GETs by `reply`; gives the targets that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            status, content = reply(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            pass

        def address_string(self) -> str:
            return "unix"

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def serving(objects: dict[str, Any]) -> Reply:
    def reply(target: str) -> tuple[int, bytes]:
        if target not in objects:
            return 404, b'{"message":"no such thing"}'
        return 200, json.dumps(objects[target]).encode()

    return reply


WEB: dict[str, Any] = {
    "Id": "c0ffee" + "0" * 58,
    "HostConfig": {"Binds": ["/srv:/x"], "CgroupnsMode": "private"},
    "Mounts": [
        {"Type": "volume", "Name": "data", "Source": "/d", "Driver": "local"},
        {"Type": "bind", "Source": "/srv", "RW": True},
        {"Type": "bind", "Source": "/etc/localtime", "RW": False},
        {"Type": "tmpfs"},
    ],
}


def ask(queries: tuple[Any, ...], path: Path) -> dict[Any, Any]:
    return answers(queries, path, lambda: "open")


def test_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    volume = {"Name": "v", "Driver": "local", "Options": {"type": "tmpfs"}}
    queries = (
        ContainerQuery("web"),
        ContainerQuery("gone"),
        VolumeQuery("v"),
        VolumeQuery("plain"),
        VolumeQuery("none"),
        PathQuery("/nowhere/at/all"),
        BuildQuery(),
    )
    objects = {
        "/containers/web/json": WEB,
        "/volumes/v": volume,
        "/volumes/plain": {"Driver": "local", "Options": None},
    }
    with daemon_at(path, serving(objects)):
        assert ask(queries, path) == {
            queries[0]: Container(
                WEB["Id"], WEB["HostConfig"], ("data",), (("/srv", False), ("/etc/localtime", True))
            ),
            queries[1]: Absent(),
            queries[2]: Volume("local", {"type": "tmpfs"}),
            queries[3]: Volume("local", {}),
            queries[4]: Absent(),
            queries[5]: Place("/nowhere/at/all"),
            queries[6]: Builds("open"),
        }


def test_names_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with daemon_at(path, serving({})) as asked:
        ask((ContainerQuery("a b/../x?y"), VolumeQuery("%2e")), path)
    assert asked == ["/containers/a%20b%2F..%2Fx%3Fy/json", "/volumes/%252e"]


def test_a_name_that_begins_an_id_is_looked_up_among_all(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    other = "ad" + "1" * 62
    objects = {"/containers/ad/json": WEB, "/containers/json?all=1": [{"Id": WEB["Id"]}, {"Id": other}]}
    with daemon_at(path, serving(objects)):
        answer = ask((ContainerQuery("ad"),), path)[ContainerQuery("ad")]
    assert answer.others == (other,)


@pytest.mark.parametrize("status", [403, 500])
def test_another_status_is_no_answer(tmp_path: Path, status: int) -> None:
    path = tmp_path / "docker.sock"
    with daemon_at(path, lambda _target: (status, b"{}")):
        assert isinstance(ask((VolumeQuery("v"),), path)[VolumeQuery("v")], Unanswered)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"not json",
        b'{"Id":"x"}',
        b"[" * 100_000,
        b'{"Id":1,"HostConfig":[1]}',
        b"\xff",
    ],
)
def test_another_form_is_no_answer(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "docker.sock"
    with daemon_at(path, lambda _target: (200, content)):
        for query in (ContainerQuery("x"), VolumeQuery("x")):
            assert not isinstance(ask((query,), path)[query], Container | Volume)


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LARGEST_ANSWER", 1000)
    path = tmp_path / "docker.sock"
    with daemon_at(path, lambda _target: (200, json.dumps({**WEB, "Labels": "x" * 2000}).encode())):
        assert isinstance(ask((ContainerQuery("web"),), path)[ContainerQuery("web")], Unanswered)


def test_nobody_there(tmp_path: Path) -> None:
    answer = ask((ContainerQuery("x"), VolumeQuery("y"), PathQuery("/nowhere")), tmp_path / "none.sock")
    assert isinstance(answer[ContainerQuery("x")], Unanswered)
    assert isinstance(answer[VolumeQuery("y")], Unanswered)
    assert answer[PathQuery("/nowhere")] == Place("/nowhere")


def test_a_mute_daemon_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "TIMEOUT", 0.2)
    path = tmp_path / "docker.sock"
    queries = tuple(VolumeQuery(f"v{number}") for number in range(20))

    def slow(_target: str) -> tuple[int, bytes]:
        time.sleep(3)
        return 200, b"{}"

    with daemon_at(path, slow):
        started = time.monotonic()
        found = ask(queries, path)
        assert time.monotonic() - started < 2
    assert all(isinstance(answer, Unanswered) for answer in found.values())

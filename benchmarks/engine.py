"""A whole dockerd without a plugin, with one that does nothing, and with the gate, in turn."""

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.clients import Times
from benchmarks.messages import create_body
from benchmarks.report import Report, microseconds
from benchmarks.servers import Bare, Gate
from tests.engine import image
from tests.engine.daemon import Daemon
from tests.engine.obtain import obtain

#: The names of the three daemons.
_ALONE, _LOOP, _GATE = "none", "loop", "gate"
#: ``docker run`` is timed so many times as often as the rest: it varies by more than a plugin costs.
_MORE_RUNS = 3


class _Api(http.client.HTTPConnection):
    """A daemon's API, over its unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))

    def ask(self, method: str, target: str, body: bytes = b"") -> bytes:
        """The body of the answer; raises `RuntimeError` for a refusal."""
        self.request(method, target, body, {"Content-Type": "application/json"})
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {target}: {answer.status} {text.decode()}")
        return text


@contextlib.contextmanager
def _daemons() -> Iterator[dict[str, Daemon]]:
    engine = obtain()
    with contextlib.ExitStack() as stack:
        gate, loop = stack.enter_context(Gate()), stack.enter_context(Bare())
        guarded, idle = (
            Daemon(engine, {"authorization-plugins": [path.stem]}, plugin_dir=path.parent)
            for path in (gate.path, loop.path)
        )
        (repository,) = gate.repositories
        gate.write_register([replace(repository, socket=guarded.socket, data_root=guarded.data_root)])
        gate.serve()
        yield {
            _ALONE: stack.enter_context(_ready(Daemon(engine))),
            _LOOP: stack.enter_context(_ready(idle)),
            _GATE: stack.enter_context(_ready(guarded)),
        }


@contextlib.contextmanager
def _ready(daemon: Daemon) -> Iterator[Daemon]:
    with daemon:
        daemon.load_image()
        yield daemon


def compare(report: Report, rounds: int) -> None:
    """Calls of the API and ``docker run``, `rounds` of each, the daemons in turn."""
    with _daemons() as daemons:
        apis = {name: _Api(daemon.socket) for name, daemon in daemons.items()}
        rows = []
        for what, times in (
            ("_ping", _calls(apis, rounds * 20, "GET", "/_ping")),
            ("container list", _calls(apis, rounds * 20, "GET", "/v1.43/containers/json")),
            *_life(apis, rounds),
        ):
            rows.append(_row(what, times))
        runs = _runs(daemons, rounds * _MORE_RUNS)
        rows.append(_row("docker run --rm busybox true", runs))
        for api in apis.values():
            api.close()
    report.table(
        "Whole dockerd, by its plugin: p50",
        ["call", _ALONE, _LOOP, _GATE, "gate to none", "gate to loop", "gate: p99"],
        rows,
    )
    report.target("docker run with the gate to without", _ratio(runs, _ALONE), 1.02)


def _row(what: str, times: dict[str, Times]) -> list[str]:
    return [
        what,
        *(microseconds(times[name].percentile(0.5)) for name in (_ALONE, _LOOP, _GATE)),
        *(f"{_ratio(times, name):.3f}" for name in (_ALONE, _LOOP)),
        microseconds(times[_GATE].percentile(0.99)),
    ]


def _ratio(times: dict[str, Times], other: str) -> float:
    return times[_GATE].percentile(0.5) / times[other].percentile(0.5)


def _in_turn(names: dict[str, Callable[[], None]], rounds: int) -> dict[str, Times]:
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        # Who comes first pays for what the others left behind.
        for name in _turned(tuple(names), number):
            before = time.perf_counter()
            names[name]()
            seconds[name].append(time.perf_counter() - before)
    return {name: Times(times, len(times) / sum(times)) for name, times in seconds.items()}


def _turned(names: tuple[str, ...], number: int) -> tuple[str, ...]:
    at = number % len(names)
    return names[at:] + names[:at]


def _calls(apis: dict[str, _Api], rounds: int, method: str, target: str) -> dict[str, Times]:
    def work(api: _Api) -> Callable[[], None]:
        def call() -> None:
            api.ask(method, target)

        return call

    return _in_turn({name: work(api) for name, api in apis.items()}, rounds)


def _life(apis: dict[str, _Api], rounds: int) -> Iterator[tuple[str, dict[str, Times]]]:
    """Create and start, a fresh container each time."""
    body = create_body(2_000).replace(b"nginx:1.27-alpine", image.IMAGE.encode())
    body = body.replace(b'"Cmd":null', b'"Cmd":["true"]').replace(
        b'"NetworkMode":"default"', b'"NetworkMode":"none"'
    )
    body = body.replace(b'{"default":{}}', b"{}").replace(b'[{"HostIp":"","HostPort":"8080"}]', b"[]")
    number = 0

    def create(api: _Api) -> Callable[[], None]:
        def call() -> None:
            nonlocal number
            number += 1
            api.ask("POST", f"/v1.43/containers/create?name=bench-{os.getpid()}-{number}", body)

        return call

    yield "create", _in_turn({name: create(api) for name, api in apis.items()}, rounds)
    names = {name: _created(api) for name, api in apis.items()}

    def start(api: _Api, waiting: list[str]) -> Callable[[], None]:
        def call() -> None:
            api.ask("POST", f"/v1.43/containers/{waiting.pop()}/start")

        return call

    yield "start", _in_turn({name: start(api, names[name]) for name, api in apis.items()}, rounds)
    for api in apis.values():
        api.ask("POST", "/v1.43/containers/prune")


def _created(api: _Api) -> list[str]:
    return [container["Id"] for container in json.loads(api.ask("GET", "/v1.43/containers/json?all=1"))]


def _runs(daemons: dict[str, Daemon], rounds: int) -> dict[str, Times]:
    def work(daemon: Daemon) -> Callable[[], None]:
        def call() -> None:
            daemon.docker("run", "--rm", image.IMAGE, "true")

        return call

    return _in_turn({name: work(daemon) for name, daemon in daemons.items()}, rounds)

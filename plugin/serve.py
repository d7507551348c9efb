"""The service: one process group, one plugin socket for each repository."""

import contextlib
import ctypes
import logging
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gevent.socket import socket as gevent_socket
from gunicorn.app.base import BaseApplication

from plugin.answers import FAILED, answer
from plugin.app import create_app
from plugin.arbiter import GateArbiter
from plugin.deferred import DeferredJournal
from plugin.door import Pause
from plugin.gate import Gate, slug_of
from plugin.metrics import Metrics
from plugin.worker import GateWorker
from spec.errors import UnreachableError, UsageError
from spec.layout import Layout

#: Seconds in which a worker answers what is under way before it ends.
_GRACE = 20
_KEPT = 16 * 2**20
# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_log = logging.getLogger("gunicorn.error")


class GateService(BaseApplication):
    """The gate of one machine as a gunicorn application."""

    def __init__(self, layout: Layout, metrics: str = "") -> None:
        self._layout = layout
        # Bound before the fork: a worker's successor takes it over.
        self._scraped = _listen(metrics) if metrics else None
        self._metrics: Metrics | None = None
        self._journal = DeferredJournal(layout.gate_log)
        self._gate: Gate | None = None
        super().__init__()

    def load_config(self) -> None:
        """One worker judges for every repository: see ``docs/performance.md`` for the choice."""
        settings: dict[str, Any] = {
            "bind": [],  # the arbiter opens the sockets
            "worker_class": GateWorker,
            "workers": 1,
            "timeout": 30,
            "graceful_timeout": _GRACE,
            "keepalive": 0,  # of what gunicorn's own parser answers; dockerd's connections stay
            "child_exit": _forget,
            "control_socket_disable": True,
            "loglevel": "warning",
        }
        if Path("/dev/shm").is_dir():  # noqa: S108 - a worker's sign of life needs no disk
            settings["worker_tmp_dir"] = "/dev/shm"  # noqa: S108
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:  # gunicorn's type is that of WSGI or ASGI, and neither is Flask's
        """The application, made in the worker."""
        _keep_memory()
        self._gate = Gate(self._layout, journal=self._journal)
        if self._scraped:
            self._metrics = Metrics(self._gate)
        return create_app(self.judge)

    def run(self) -> None:
        """Serve until a signal ends the process. Raises `RediaccError` where it cannot begin."""
        GateArbiter(self, self._layout).run()

    def judge(self, path: str, message: bytes, pause: Pause = lambda: None) -> bytes:
        """What dockerd is answered to `message`, which came in by the socket `path`. Never raises.

        `pause`: see `Gate.judge`.
        """
        assert self._gate is not None  # noqa: S101 - `load` comes first
        try:
            if self._metrics is None:
                return answer(self._gate.judge(path, message, pause))
            before = time.perf_counter()
            decision = self._gate.judge(path, message, pause)
            self._metrics.decided(slug_of(path), decision, time.perf_counter() - before)
            return answer(decision)
        except Exception:
            _log.exception("the gate failed; the request is denied")
            return answer(FAILED)

    @contextlib.contextmanager
    def outlets(self) -> Iterator[None]:
        """What a worker keeps open besides the plugin sockets."""
        self._journal.begin()
        with contextlib.ExitStack() as stack:
            stack.callback(self._journal.flush)
            if self._metrics and self._scraped:
                scraped = gevent_socket(fileno=os.dup(self._scraped.fileno()))
                stack.callback(self._metrics.serve(scraped).stop)
            yield


def serve(layout: Layout, metrics: str = "") -> None:
    """Answer for every registered repository until a signal ends the process.

    `metrics` is the address at which Prometheus may scrape it; nowhere where it is empty. Raises
    `RediaccError` where it cannot begin.
    """
    _allow_many_sockets()
    GateService(layout, metrics).run()


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"{address!r} is no address for metrics", "--metrics 127.0.0.1:9464")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except (OSError, OverflowError) as error:
        hint = "The unit of the gate allows unix sockets only: deploy/ has a drop-in for metrics"
        raise UnreachableError(f"metrics cannot be served at {address}: {error}", hint) from error


def _forget(_arbiter: GateArbiter, worker: GateWorker) -> None:
    worker.arbiter_end.close()


def _keep_memory() -> None:
    """Let the C library keep up to `_KEPT` bytes of freed memory rather than give it back (mallopt(3)).

    A body of 500 KB passes through half a dozen buffers of its size. Each of them would be mapped, touched
    page by page and unmapped, which takes as long as half of the parsing.
    """
    with contextlib.suppress(AttributeError):  # only glibc has it
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)


def _allow_many_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # where it is forbidden, the unit's limit counts
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

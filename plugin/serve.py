"""The service: one process group, one plugin socket for each repository."""

import contextlib
import logging
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from plugin.answers import FAILED, answer
from plugin.app import create_app
from plugin.arbiter import GateArbiter
from plugin.deferred import DeferredJournal
from plugin.gate import Gate
from plugin.worker import GateWorker
from spec.layout import Layout

#: Seconds in which a worker answers what is under way before it ends.
_GRACE = 20

_log = logging.getLogger("gunicorn.error")


class GateService(BaseApplication):
    """The gate of one machine as a gunicorn application."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
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
        self._gate = Gate(self._layout, journal=self._journal)
        return create_app(self.judge)

    def run(self) -> None:
        """Serve until a signal ends the process. Raises `RediaccError` where it cannot begin."""
        GateArbiter(self, self._layout).run()

    def judge(self, path: str, message: bytes) -> bytes:
        """What dockerd is answered to `message`, which came in by the socket `path`. Never raises."""
        assert self._gate is not None  # noqa: S101 - `load` comes first
        try:
            return answer(self._gate.judge(path, message))
        except Exception:
            _log.exception("the gate failed; the request is denied")
            return answer(FAILED)

    @contextlib.contextmanager
    def outlets(self) -> Iterator[None]:
        """What a worker keeps open besides the plugin sockets."""
        self._journal.begin()
        try:
            yield
        finally:
            self._journal.flush()


def serve(layout: Layout) -> None:
    """Answer for every registered repository until a signal ends the process."""
    _allow_many_sockets()
    GateService(layout).run()


def _forget(_arbiter: GateArbiter, worker: GateWorker) -> None:
    worker.arbiter_end.close()


def _allow_many_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(
            OSError, ValueError
        ):  # a sandbox may forbid it: then the unit's limit counts
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

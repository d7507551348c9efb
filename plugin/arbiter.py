"""The arbiter: gunicorn's master process, whose listening sockets follow the register of repositories.

It holds every socket, so whatever happens to a worker, no connection that waits at one is lost. A repository
that comes or goes touches its own socket and no other. It tells systemd when the service can answer, and
goes on telling it for as long as a worker is alive.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.systemd import sd_notify

from grants_cli.store import cached_register
from plugin import sockets
from plugin.sockets import Listener
from plugin.worker import CLOSE, HELD_BACK, OPEN, GateWorker
from spec.errors import RediaccError
from spec.layout import Layout

#: Seconds after which a change of the register counts at the latest.
_POLL = 0.2
#: Seconds without a sign of a worker after which systemd is told no more that the service is alive.
_PULSE = 5.0


class GateArbiter(Arbiter):
    """The master process of the gate on the machine of `layout`."""

    def __init__(self, app: BaseApplication, layout: Layout) -> None:
        super().__init__(app)
        assert self.log is not None  # noqa: S101 - for mypy: Arbiter.setup has made it
        self._log = self.log
        self._layout = layout
        self._listeners: dict[str, Listener] = {}
        self._registered: set[str] = set()
        self._register = cached_register(layout)
        self._complaints: set[str] = set()
        self._born: dict[int, float] = {}
        self._ready = False

    def start(self) -> None:
        """Open the sockets. Raises `RediaccError` where the register cannot be read."""
        self._listeners = {listener.path: listener for listener in sockets.inherited(self.cfg, self._log)}
        found = self._layout.plugin_dir.glob("rediacc-*.sock")
        sockets.remove_dead((path for path in found if str(path) not in self._listeners), self._wanted())
        self._follow()
        # gunicorn would tell systemd now, before there is a worker.
        with _without("NOTIFY_SOCKET"):
            super().start()

    def wait_for_signals(self, timeout: float | None = _POLL) -> list[int]:
        """Wait for signals, and for no longer than a change of the register may wait."""
        return super().wait_for_signals(min(timeout or _POLL, _POLL))

    def manage_workers(self) -> None:
        """What the master does in each round of its loop."""
        try:
            self._follow()
        except RediaccError as error:
            # What was served before goes on being served; the gate denies by itself what it cannot look up.
            self._complain(f"the sockets stay as they are: {error.message}")
        super().manage_workers()
        self._tell_systemd()

    def spawn_worker(self) -> int:
        """Start a worker, and remember how its sign of life looks before the first one."""
        self.LISTENERS[:] = self._listeners.values()
        # Until a worker has its own handlers, a SIGTERM would go to a copy of ours and be forgotten.
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            pid = super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        worker = cast(GateWorker, self.WORKERS[pid])
        worker.orders.close()
        self._born[pid] = worker.tmp.last_update()
        return pid

    def stop(self, graceful: bool = True) -> None:
        """End the service. The sockets that were bound here go first: nobody can connect from then on."""
        sd_notify("STOPPING=1", self._log)
        for listener in self._listeners.values():
            listener.remove()
            listener.close()
        self._listeners.clear()
        self.LISTENERS.clear()
        super().stop(graceful)

    def handle_usr2(self) -> None:
        """SIGUSR2 would start a second master: sockets are handed over by systemd instead."""
        self._log.warning("SIGUSR2 is not supported: restart the service instead")

    def _wanted(self) -> set[str]:
        repositories = self._register.current().repositories
        return {str(self._layout.plugin_socket(repository.slug)) for repository in repositories}

    def _follow(self) -> None:
        """Listen for every registered repository, and where systemd asks for it."""
        registered = self._wanted()
        if registered == self._registered and registered <= self._listeners.keys():
            self._complaints.clear()
            return
        for path in (self._registered - registered) & self._listeners.keys():
            listener = self._listeners.pop(path)
            self._order(CLOSE, listener)
            listener.remove()
            listener.close()
        self._registered = registered
        for path in sorted(registered - self._listeners.keys()):
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                listener = self._listeners[path] = Listener(path, self.cfg, self._log)
            except (OSError, ValueError) as error:
                self._complain(f"cannot listen at {path}: {error}")
                continue
            self._order(OPEN, listener)

    def _order(self, what: bytes, listener: Listener) -> None:
        fds = [listener.fileno()] if what == OPEN else []
        for pid, worker in tuple(self.WORKERS.items()):
            try:
                order = what + listener.path.encode()
                socket.send_fds(cast(GateWorker, worker).arbiter_end, [order], fds)
            except OSError:
                # It has ended or is far behind: the next worker inherits the sockets as they are now.
                self.kill_worker(pid, signal.SIGTERM)

    def _complain(self, message: str) -> None:
        if message not in self._complaints:
            self._log.error(message)
        self._complaints.add(message)

    def _tell_systemd(self) -> None:
        now = time.monotonic()
        self._born = {pid: beat for pid, beat in self._born.items() if pid in self.WORKERS}
        beats = [(pid, worker.tmp.last_update()) for pid, worker in self.WORKERS.items()]
        if not any(beat != self._born.get(pid) and now - beat < _PULSE for pid, beat in beats):
            return
        if not self._ready:
            self._ready = True
            sd_notify(f"READY=1\nSTATUS=Answering on {len(self._listeners)} sockets", self._log)
        sd_notify("WATCHDOG=1", self._log)


@contextlib.contextmanager
def _without(name: str) -> Iterator[None]:
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value

"""The service: gunicorn on one unix socket for each repository."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from grants_cli.store import read_register
from plugin.app import create_app
from plugin.gate import Gate
from spec.layout import Layout


class GateService(BaseApplication):
    """The gate of one machine as a gunicorn application."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        super().__init__()

    def load_config(self) -> None:
        """One gevent worker holds every socket: see ``docs/performance.md`` for the choice."""
        settings: dict[str, Any] = {
            "bind": [f"unix:{path}" for path in self._sockets()],
            "worker_class": "gevent",
            "workers": 1,
            "keepalive": 90,  # dockerd closes idle connections after 30 s; it must be the one that closes
            "umask": 0o177,
            "control_socket_disable": True,
            "loglevel": "warning",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:  # gunicorn's type is that of WSGI or ASGI, and neither is Flask's
        """The application, made in the worker."""
        return create_app(Gate(self._layout))

    def _sockets(self) -> Sequence[Path]:
        self._layout.plugin_dir.mkdir(parents=True, exist_ok=True)
        register = read_register(self._layout)
        return [self._layout.plugin_socket(repository.slug) for repository in register.repositories]


def serve(layout: Layout) -> None:
    """Answer for every registered repository until a signal ends the process."""
    for path in layout.plugin_dir.glob("rediacc-*.sock"):
        if not _is_served(path):
            # A dead socket costs every dockerd of this mount namespace 15 s at each volume listing.
            path.unlink(missing_ok=True)
    GateService(layout).run()


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True

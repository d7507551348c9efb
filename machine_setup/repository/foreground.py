"""A repository's daemon in the foreground: what the units do, where there is no systemd.

It hands the socket over to dockerd as systemd does (sd_listen_fds(3)), so that the daemon has no need to see
the directory with every repository's socket, and puts it into the same mount namespace.
"""

import grp
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from grants_cli.register import Repository
from machine_setup.repository import daemon, mounts, prepare
from spec.errors import CommandFailedError, NotFoundError, RefusedError
from spec.layout import Layout

#: The first descriptor that sd_listen_fds(3) hands over.
_FIRST = 3


def run(layout: Layout, repository: Repository, dockerd: str, ready: Callable[[], None]) -> int:
    """Run the daemon until it ends or SIGINT or SIGTERM arrives; its exit status.

    Calls `ready` once the socket takes connections. Afterwards nothing of it is left: no process, mount,
    socket, bridge or table. Raises `RefusedError` when it runs already.
    """
    if daemon.find(repository) is not None:
        raise RefusedError(
            f"the daemon of {repository.ref} runs already", f"renet repo stop {repository.ref} ends it"
        )
    daemon.end_everything(repository)
    prepare.up(layout, repository)
    try:
        with _listening(repository) as listener:
            child = _start(layout, repository, dockerd, listener)
            with _signals_to(child):
                ready()
                return child.wait()
    finally:
        daemon.end_everything(repository)
        prepare.down(layout, repository)


@contextmanager
def _listening(repository: Repository) -> Iterator[socket.socket]:
    path = repository.socket
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    group = group_id(repository.group)
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        if repository.group:
            os.chown(path, 0, group)
            path.chmod(0o660)
        listener.listen(4096)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def group_id(name: str) -> int:
    """The id of the group `name`, root's for the empty name; raises `NotFoundError`."""
    if not name:
        return 0
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise NotFoundError(f"there is no group {name}", f"groupadd {name}") from error


def _start(
    layout: Layout, repository: Repository, dockerd: str, listener: socket.socket
) -> subprocess.Popen[bytes]:
    command = [dockerd, "--config-file", str(repository.daemon_json)]
    script = mounts.as_script(mounts.plan(layout, repository), command)
    # The shell becomes the daemon, so its id is the one that LISTEN_PID must name.
    script = f"LISTEN_PID=$$; export LISTEN_PID\n{script}"

    def hand_over() -> None:
        os.dup2(listener.fileno(), _FIRST)

    try:
        return subprocess.Popen(
            ["unshare", "--mount", "--propagation=slave", "--", "sh", "-c", script],
            env=_environment(),
            pass_fds=[_FIRST],
            preexec_fn=hand_over,  # noqa: PLW1509 - this process has one thread
            stdin=subprocess.DEVNULL,
            # A Ctrl-C at the terminal is for us: we pass it on, and wait.
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise CommandFailedError("unshare is not installed", "apt-get install util-linux") from error


def _environment() -> Mapping[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DOCKER_", "NOTIFY_"))}
    return {**kept, "LISTEN_FDS": "1"}


@contextmanager
def _signals_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGINT, SIGTERM (end) and SIGHUP (reload) on to `child`."""

    def terminate(_number: int, _frame: object) -> None:
        child.terminate()

    def reload(_number: int, _frame: object) -> None:
        child.send_signal(signal.SIGHUP)

    handlers = {signal.SIGINT: terminate, signal.SIGTERM: terminate, signal.SIGHUP: reload}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

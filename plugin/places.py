"""Where one machine keeps what no container may see."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import cast

from grants_cli.register import Register, Repository
from plugin.context import Closed, Places
from spec.layout import Layout

# dockerd's own defaults, where daemon.json does not say otherwise.
_EXEC_ROOT = "/var/run/docker"


@cache
def own_program() -> tuple[str, ...]:
    """The directories of the gate's own program: its packages, its interpreter and its libraries."""
    base = Path(__file__).resolve().parents[1]
    packages = {str(base / name) for name in ("grants_cli", "machine_setup", "plugin", "spec")}
    return tuple(packages | {os.path.realpath(sys.prefix), os.path.realpath(sys.executable)})


def closed(layout: Layout, register: Register) -> Closed:
    """What is closed to every container of the machine; costs a few stats for each repository."""
    machine = (
        layout.cdi_dir,
        layout.grants.parent.parent,
        layout.gate_log.parent,
        layout.plugin_dir,
        layout.docker_socket("x").parent,
        layout.repository_dir("x").parent.parent,
        *own_program(),
    )
    daemons = (
        path
        for each in register.repositories
        for path in (each.socket, each.data_root, each.daemon_json, each.exec_root)
        if path is not None
    )
    return Closed.of(_both_ways(map(str, (*machine, *daemons))))


def places(layout: Layout, repository: Repository, settings: Mapping[str, object], machine: Closed) -> Places:
    """The places that matter for `repository`, whose daemon.json says `settings`."""
    exec_root = cast("str", settings.get("exec-root") or _EXEC_ROOT)
    return Places(
        machine,
        Closed.of(_both_ways([exec_root])),
        os.path.realpath(layout.repository_dir(repository.guid)),
        os.path.realpath(repository.socket),
    )


def _both_ways(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield os.path.normpath(path)
        yield os.path.realpath(path)

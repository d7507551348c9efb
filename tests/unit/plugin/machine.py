"""A machine on paper: answers to the judge's questions, and contexts to judge in."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from plugin.context import (
    Absent,
    Answer,
    BuildQuery,
    Builds,
    Closed,
    Container,
    ContainerQuery,
    Context,
    PathQuery,
    Place,
    Places,
    Query,
    Volume,
)
from plugin.decide import Decision, Request
from plugin.judge import judge

DEVICES = (
    "nvidia.com/gpu=0",
    "nvidia.com/gpu=1",
    "nvidia.com/gpu=all",
    "nvidia.com/gpu=GPU-6b1f2c1e-4d5a-4c7e-9a52-0f6f3a9d1e77",
    "rediacc.io/amd=all",
    "rediacc.io/amd=gpu0",
    "rediacc.io/dri=renderD128",
    "rediacc.io/dri=renderD129",
)


@dataclass
class Machine:
    """Links, device nodes, mounts, containers and volumes of a machine that exists only here."""

    links: Mapping[str, str] = field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    kernel_mounts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    containers: Mapping[str, Container] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    build_problem: str = ""
    asked: list[Query] = field(default_factory=list)

    def ask(self, queries: tuple[Query, ...]) -> dict[Query, Answer]:
        self.asked.extend(queries)
        return {query: self._answer(query) for query in queries}

    def _answer(self, query: Query) -> Answer:
        if isinstance(query, PathQuery):
            path = self._follow(query.path)
            return Place(path, self.kernel_mounts.get(path, ()), path in self.devices)
        if isinstance(query, ContainerQuery):
            return self.containers.get(query.ref, Absent())
        if isinstance(query, BuildQuery):
            return Builds(self.build_problem)
        return self.volumes.get(query.name, Absent())

    def _follow(self, path: str) -> str:
        done = "/"
        for part in posixpath.normpath("/" + path.lstrip("/")).split("/")[1:]:
            done = posixpath.join(done, part)
            done = self._follow(self.links[done]) if done in self.links else done
        return done


#: As on a machine with one engine whose API socket is at the usual place.
USUAL = Machine(links={"/var/run": "/run", "/etc/localtime": "/usr/share/zoneinfo/Europe/Berlin"})


def context(*granted: str, own_socket: str = "/run/rediacc/docker-gpu-a.sock") -> Context:
    """The context of the repository gpu-a with these grants."""
    places = Places(
        machine=Closed.of(
            ["/var/lib/rediacc/repos/11111111-1111-4111-8111-111111111111/docker", "/opt/rediacc-gpu-gate"]
        ),
        daemon=Closed.of(["/run/docker-gpu-a"]),
        own_files="/var/lib/rediacc/repos/11111111-1111-4111-8111-111111111111",
        own_socket=own_socket,
    )
    return Context("gpu-a", frozenset(granted), DEVICES, places)


def ask_gate(request: Request, where: Context, machine: Machine = USUAL) -> Decision:
    """The decision on `request`, its questions answered by `machine`."""
    return judge(request, where, machine.ask)


def post(target: str, body: bytes) -> Request:
    """A POST with a JSON body, as dockerd shows it."""
    return Request(
        "POST", target, body, {"Content-Type": "application/json", "Content-Length": str(len(body))}
    )

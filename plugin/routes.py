"""From (method, request target) to an operation of the Docker API, or a refusal.

dockerd routes with gorilla/mux on the decoded path, the first match of 122 routes wins, and a version may
stand before any of them. Many spellings reach one handler: ``/%63ontainers/create``,
``/containers%2Fcreate``, ``/v1.047/containers/create``, ``http://anything/containers/create``. So the gate
does not imitate the router. It accepts one spelling of each endpoint that it knows and refuses every other:

1. the target is printable ASCII, begins with one ``/`` and has no ``#``. A bad fragment (``?#%zz``) makes
   dockerd hide the body from authorization plugins, in every version up to 2026-08;
2. the path has no ``%``, backslash, ``;``, ``//`` and no dot segment. Names of images may carry ``%2F`` and
   the like, where nothing that we inspect depends on the name;
3. the version, if any, is written ``v1.NN``;
4. (method, whole path) is one of `ENDPOINTS`; a name in it has no ``/`` unless it is an image's.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from plugin.denial import Denial, DenialError, unreadable


class Verdict(StrEnum):
    """What the gate does with an endpoint before it looks at any field."""

    ALLOW = "allowed"
    INSPECT = "its body decides"
    STORED = "the container's stored configuration decides"
    BUILD = "the daemon's configuration decides"
    PLUGIN = "managed-plugin"
    SWARM = "swarm"
    CHECKPOINT = "checkpoint"
    DENY = "unknown-endpoint"


@dataclass(frozen=True)
class Endpoint:
    """One route of the Docker API, as moby registers it (without the version), and what the gate does with
    it."""

    method: str
    template: str
    verdict: Verdict

    @property
    def route(self) -> str:
        """``METHOD /path/{name}``: the key by which the rest of the gate knows it."""
        return f"{self.method} {self.template}"


@dataclass(frozen=True)
class Operation:
    """A request that the gate knows: its endpoint, the object it names and what travels beside the body."""

    endpoint: Endpoint
    name: str = ""
    version: tuple[int, int] | None = None
    query: str = ""

    @property
    def route(self) -> str:
        """The endpoint's key."""
        return self.endpoint.route


def _table(verdict: Verdict, routes: str) -> tuple[Endpoint, ...]:
    rows = [line.split() for line in routes.strip().splitlines()]
    return tuple(Endpoint(method, template, verdict) for method, template in rows)


ENDPOINTS: tuple[Endpoint, ...] = (
    *_table(
        Verdict.INSPECT,
        """
        POST /containers/create
        POST /containers/{name}/exec
        POST /containers/{name}/update
        POST /volumes/create
        POST /networks/create
        POST /networks/{name}/connect
        """,
    ),
    *_table(
        Verdict.STORED,
        """
        POST /containers/{name}/start
        POST /containers/{name}/restart
        POST /containers/{name}/rename
        GET /containers/{name}/archive
        HEAD /containers/{name}/archive
        PUT /containers/{name}/archive
        """,
    ),
    *_table(
        Verdict.BUILD,
        """
        POST /build
        POST /session
        POST /grpc
        """,
    ),
    *_table(
        Verdict.ALLOW,
        """
        OPTIONS /{anyroute}
        GET /_ping
        HEAD /_ping
        GET /events
        GET /info
        GET /version
        GET /system/df
        POST /auth
        POST /build/prune
        POST /build/cancel
        GET /containers/json
        GET /containers/{name}/export
        GET /containers/{name}/changes
        GET /containers/{name}/json
        GET /containers/{name}/top
        GET /containers/{name}/logs
        GET /containers/{name}/stats
        GET /containers/{name}/attach/ws
        POST /containers/{name}/kill
        POST /containers/{name}/pause
        POST /containers/{name}/unpause
        POST /containers/{name}/stop
        POST /containers/{name}/wait
        POST /containers/{name}/resize
        POST /containers/{name}/attach
        POST /containers/prune
        DELETE /containers/{name}
        GET /exec/{name}/json
        POST /exec/{name}/start
        POST /exec/{name}/resize
        POST /commit
        GET /images/json
        GET /images/search
        GET /images/get
        GET /images/{image}/get
        GET /images/{image}/history
        GET /images/{image}/json
        GET /images/{image}/attestations
        POST /images/load
        POST /images/create
        POST /images/{image}/push
        POST /images/{image}/tag
        POST /images/prune
        DELETE /images/{image}
        GET /distribution/{image}/json
        GET /volumes
        GET /volumes/{name}
        POST /volumes/prune
        DELETE /volumes/{name}
        GET /networks
        GET /networks/
        GET /networks/{name}
        POST /networks/{name}/disconnect
        POST /networks/prune
        DELETE /networks/{name}
        GET /swarm
        GET /services
        GET /services/{name}
        GET /services/{name}/logs
        GET /nodes
        GET /nodes/{name}
        GET /tasks
        GET /tasks/{name}
        GET /tasks/{name}/logs
        GET /secrets
        GET /secrets/{name}
        GET /configs
        GET /configs/{name}
        GET /plugins
        GET /plugins/privileges
        GET /plugins/{image}/json
        """,
    ),
    *_table(
        Verdict.PLUGIN,
        """
        DELETE /plugins/{image}
        POST /plugins/{image}/enable
        POST /plugins/{image}/disable
        POST /plugins/pull
        POST /plugins/{image}/push
        POST /plugins/{image}/upgrade
        POST /plugins/{image}/set
        POST /plugins/create
        """,
    ),
    *_table(
        Verdict.SWARM,
        """
        POST /swarm/init
        POST /swarm/join
        POST /swarm/leave
        GET /swarm/unlockkey
        POST /swarm/update
        POST /swarm/unlock
        POST /services/create
        POST /services/{name}/update
        DELETE /services/{name}
        DELETE /nodes/{name}
        POST /nodes/{name}/update
        POST /secrets/create
        DELETE /secrets/{name}
        POST /secrets/{name}/update
        POST /configs/create
        DELETE /configs/{name}
        POST /configs/{name}/update
        PUT /volumes/{name}
        """,
    ),
    *_table(
        Verdict.CHECKPOINT,
        """
        GET /containers/{name}/checkpoints
        POST /containers/{name}/checkpoints
        DELETE /containers/{name}/checkpoints/{checkpoint}
        """,
    ),
    *_table(
        Verdict.DENY,
        """
        GET /debug/vars
        GET /debug/pprof/
        GET /debug/pprof/cmdline
        GET /debug/pprof/profile
        GET /debug/pprof/symbol
        GET /debug/pprof/trace
        GET /debug/pprof/{name}
        """,
    ),
)

# What may stand for a name. Containers and volumes begin with a letter or digit; networks may hold more,
# image references hold slashes, colons and @. None can hold what rule 2 refuses.
_NAMES = {
    "name": r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.:@+ ~-]*)",
    "checkpoint": r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
    "image": r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.:@/+-]*)",
    "anyroute": r".*",
}


def _pattern(endpoint: Endpoint) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda match: _NAMES[match[1]], endpoint.template))


_FIXED = {(entry.method, entry.template): entry for entry in ENDPOINTS if "{" not in entry.template}
_NAMED: dict[tuple[str, str], list[tuple[re.Pattern[str], Endpoint]]] = defaultdict(list)
for _entry in ENDPOINTS:
    if "{" in _entry.template:
        _NAMED[_entry.method, _entry.template.split("/")[1]].append((_pattern(_entry), _entry))

_CLEAN_TARGET = re.compile(r"/[!-~]*")
_UNCLEAN_PATH = re.compile(r"[#;\\]|//|/\.{1,2}(?:/|\Z)")
_ENCODED_NAME = re.compile(r"(?:/v1\.\d+)?/(?:images|distribution)/")
_VERSION = re.compile(r"/v(1)\.([1-9]\d{0,2}|0)(?=/)")
_MAYBE_VERSION = re.compile(r"/v[0-9.]+(?=/)")


def route(method: str, target: str) -> Operation:
    """The operation that (`method`, `target`) asks for.

    Raises `DenialError`: `unreadable-request` for a spelling that a client has no reason to use,
    `unknown-endpoint` for anything that is not in `ENDPOINTS`.
    """
    if not _CLEAN_TARGET.fullmatch(target) or "#" in target:
        raise unreadable("the request target is not a plain path and query")
    path, _, query = target.partition("?")
    path = _decoded(path)
    if _UNCLEAN_PATH.search(path):
        raise unreadable("its path is not in its plain form")
    version = None
    if match := _VERSION.match(path):
        version = (int(match[1]), int(match[2]))
        path = path[match.end() :]
    elif _MAYBE_VERSION.match(path):
        raise unreadable("its API version is not written like v1.47")
    if endpoint := _FIXED.get((method, path)):
        return Operation(endpoint, "", version, query)
    kind = "{anyroute}" if method == "OPTIONS" else path.split("/", 2)[1]
    for pattern, endpoint in _NAMED.get((method, kind), ()):
        if match := pattern.fullmatch(path):
            return Operation(endpoint, match.groupdict().get("name") or "", version, query)
    raise DenialError(
        Denial(
            "unknown-endpoint",
            f"{method[:20]} {path[:200]} is not an endpoint of the Docker API that the gate knows",
            "If it is new in Docker, the gate needs an update; ask an operator",
        )
    )


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    # Clients in Java and JavaScript write the slashes of an image's name as %2F.
    decoded = unquote(path)
    if not _ENCODED_NAME.match(path) or not _CLEAN_TARGET.fullmatch(decoded) or re.search("[%?#]", decoded):
        raise unreadable("its path holds percent escapes")
    return decoded

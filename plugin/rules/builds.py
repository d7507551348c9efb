"""Builds: what BuildKit is asked for never reaches the gate, so the daemon's configuration must close it."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

from plugin.context import BuildQuery, Builds, Context
from plugin.denial import Denial, unreadable
from plugin.rules.words import words

# Parameters of POST /build. Those that are not here are refused.
_PARAMETERS = words(
    "buildargs buildid cachefrom cpuperiod cpuquota cpusetcpus cpusetmems cpushares dockerfile"
    " extrahosts forcerm labels memory memswap networkmode nocache outputs platform pull q"
    " remote rm session shmsize squash t target ulimits version"
)
_STEERING = frozenset({"cgroupparent", "isolation", "securityopt"})


def build(query: str, context: Context) -> Iterator[Denial]:
    """A build, a BuildKit session or a call of BuildKit."""
    answer = context.answer(BuildQuery())
    problem = answer.problem if isinstance(answer, Builds) else "the gate cannot read its configuration"
    if problem:
        yield Denial(
            "build-device",
            f"builds are refused for this repository: {problem}",
            "Tell an operator of this machine: renet doctor says how to close it",
        )
    yield from _parameters(query)


def _parameters(query: str) -> Iterator[Denial]:
    if not query:
        return
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=200
        )
    except ValueError:
        pairs = []
    if not pairs or ";" in query:
        yield unreadable("its query is not key=value pairs").denial
        return
    for name, value in pairs:
        if name in _STEERING and value:
            yield Denial(
                "annotation", f"a build with {name} is refused on this machine", "Leave it out", name
            )
        elif name not in _PARAMETERS | _STEERING:
            yield Denial(
                "unknown-field",
                f"the gate does not know the build parameter {name[:100]!r}",
                "Leave it out; if it is new in the Docker API, the gate needs an update: ask an operator",
                name[:100],
            )

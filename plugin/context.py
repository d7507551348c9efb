"""What a decision rests on besides the request: values only, fetched before by `plugin.machine` and
`plugin.engine`.

Some facts cannot be known before the request has been read: what a stored container holds, what a volume
mounts, where a symlink leads. The judge asks for them by a query; the edge answers and asks again
(`plugin.judge`). Nothing is allowed while an answer is missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from plugin.denial import Denial

JsonObject = Mapping[str, object]


@dataclass(frozen=True)
class ContainerQuery:
    """Which container does the repository's daemon know by this name or id, and how was it made?"""

    ref: str


@dataclass(frozen=True)
class VolumeQuery:
    """Which driver and options has the volume of this name?"""

    name: str


@dataclass(frozen=True)
class PathQuery:
    """Where does this path lead on the host, symlinks followed?"""

    path: str


@dataclass(frozen=True)
class BuildQuery:
    """Does the daemon's configuration leave builds a way past the gate?"""


Query = ContainerQuery | VolumeQuery | PathQuery | BuildQuery


@dataclass(frozen=True)
class Container:
    """A stored container.

    `volumes` and `binds` (a source, and whether it is read-only) are its mounts as the daemon has settled
    them, those of other containers (VolumesFrom) included. `others` are the ids that dockerd would take
    the name for, were it not there.
    """

    id: str
    host_config: JsonObject
    volumes: tuple[str, ...] = ()
    binds: tuple[tuple[str, bool], ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Volume:
    """A volume as the daemon has it."""

    driver: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """Where a path leads: `path` without symlinks, and the kernel's file systems found there or below."""

    path: str
    kernel_mounts: tuple[str, ...] = ()
    is_device: bool = False


@dataclass(frozen=True)
class Builds:
    """What leaves builds open, as the end of a sentence; `problem` is empty where nothing does."""

    problem: str


@dataclass(frozen=True)
class Absent:
    """The daemon knows nothing by that name."""


@dataclass(frozen=True)
class Unanswered:
    """The daemon or the kernel did not answer; `why` is for the log."""

    why: str


Answer = Container | Volume | Place | Builds | Absent | Unanswered


class MissingFactsError(Exception):
    """The judge cannot go on without these answers."""

    def __init__(self, queries: Iterable[Query]) -> None:
        super().__init__("facts are missing")
        self.queries = tuple(queries)


@dataclass(frozen=True)
class Closed:
    """Places that no container may see: `roots` and what is below them, and `above`, the directories over
    them.

    Looking a path up costs as many steps as it has parts, however many places there are.
    """

    roots: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()

    @classmethod
    def of(cls, paths: Iterable[str]) -> "Closed":
        """Everything at, below and above the clean absolute `paths`."""
        roots = frozenset(paths)
        return cls(roots, frozenset(parent for path in roots for parent in _upwards(path)) - roots)

    def touches(self, path: str, inside: str = "") -> bool:
        """Whether `path` is, holds or lies in one of the places; those around `inside` do not count."""
        if path in self.above:
            return True
        found = [root for root in (path, *_upwards(path)) if root in self.roots]
        return any(not inside or not (inside + "/").startswith(root.rstrip("/") + "/") for root in found)


def _upwards(path: str) -> Iterator[str]:
    """The directories over `path`, the nearest first."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


@dataclass(frozen=True)
class Places:
    """Where the machine keeps what no container may see, and what of it is this repository's to use.

    `machine` is closed to all repositories, `daemon` because of the repository's own. `own_files` is the
    directory of the repository's own files, open although it lies in a closed one. `own_socket` is its API's.
    """

    machine: Closed = Closed()
    daemon: Closed = Closed()
    own_files: str = ""
    own_socket: str = ""


@dataclass(frozen=True)
class Context:
    """What the decision rests on besides the request.

    `repository` is its ref, `granted` the CDI names with a live grant, `available` every name that a spec
    on the machine defines. `relaxed` holds, by rule, what the operator allows this repository beyond the
    host rules. With `grants_problem` no CDI device is admitted: the grants cannot be read, for the reason
    it gives.
    """

    repository: str
    granted: frozenset[str]
    available: Sequence[str]
    places: Places = Places()
    relaxed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    grants_problem: str = ""
    facts: Mapping[Query, Answer] = field(default_factory=dict)

    def require(self, queries: Iterable[Query]) -> None:
        """Raise `MissingFactsError` unless all of `queries` have an answer, so that one round fetches them
        all."""
        if missing := [query for query in queries if query not in self.facts]:
            raise MissingFactsError(missing)

    def answer(self, query: Query) -> Answer:
        """The answer to `query`; raises `MissingFactsError`."""
        self.require([query])
        return self.facts[query]


def unanswered(what: str) -> Denial:
    """The denial where an answer is needed and there is none."""
    return Denial(
        "unreadable-request",
        f"the gate could not learn from this repository's daemon {what}",
        "Try again; if it is refused again, tell an operator of this machine",
    )

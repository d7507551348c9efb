"""What the gate knows of its machine, and the judgment of one message: the edge around `decide`."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import cast

from grants_cli.grants import Grants
from grants_cli.register import Register, Repository
from grants_cli.store import cached_grants, cached_register
from grants_cli.times import utc_now
from plugin import message
from plugin.builds import build_problem
from plugin.context import Answer, Closed, Context, Places, Query
from plugin.decide import Decision, Request
from plugin.denial import Denial, DenialError
from plugin.facts import answers
from plugin.journal import Journal, entry
from plugin.judge import judge
from plugin.later import Later
from plugin.options import Options, cached_options
from plugin.places import closed, places
from spec.errors import RediaccError
from spec.files import CachedFile
from spec.layout import Layout
from spec.registry import CachedRegistry

Clock = Callable[[], datetime]
Settings = Mapping[str, object]

_logger = logging.getLogger(__name__)


class Gate:
    """Answers for every repository of one machine.

    Grants, register, specs, options and daemons' settings are read again only when their files have changed,
    so a change counts from the next request on and a request's cost does not grow with the files.
    """

    def __init__(self, layout: Layout, clock: Clock = utc_now, journal: Journal | None = None) -> None:
        self._layout = layout
        self._clock = clock
        self._register = cached_register(layout)
        self._grants = cached_grants(layout)
        self._options = cached_options(layout.gate_options)
        self._specs = CachedRegistry((layout.cdi_dir,))
        self._settings: dict[Path, CachedFile[Settings]] = {}
        self._live: dict[str, tuple[Grants, datetime, datetime, frozenset[str]]] = {}
        self._seen_options: Options | None = None
        self._wrong_options = 0
        self._closed: tuple[Register, Closed] | None = None
        self._places: dict[str, tuple[Register, Settings, Places]] = {}
        self._journal = journal or Journal(layout.gate_log)
        self._complaint = ""
        self._read_options()

    def judge(self, socket_path: str, body: bytes, pause: Callable[[], None] = lambda: None) -> Decision:
        """Judge the authorization message `body` that arrived on the plugin socket `socket_path`.

        `pause` is called between the steps of reading a large one: others may be judged meanwhile.

        A denial carries the id of its line in the decision log. Raises nothing for what a client sends.
        """
        request, name = _NO_REQUEST, slug_of(socket_path)
        options = self._read_options()
        try:
            request = message.parse(body, pause)
            register = self._read_register(name)
            repository = register.by_slug.get(name)
            if repository is None:
                raise DenialError(_unknown(name))
            name = str(repository.ref)
            context = self._context(repository, register, options)
            decision = judge(request, context, lambda queries: self.answer(repository, queries))
        except DenialError as error:
            decision = Decision(False, error.denial)
        if not (decision.denial or decision.devices or options.log_all):
            return decision
        return self._logged(name, request, decision)

    def _read_options(self) -> Options:
        options = self._options.current()
        if options.problem != self._complaint:
            self._complaint = options.problem
            if options.problem:
                _logger.error("%s", options.problem)
        return options

    def _logged(self, name: str, request: Request, decision: Decision) -> Decision:
        line = entry(self._clock(), name, request, decision)
        self._journal.write(line)
        if decision.denial is None:
            return decision
        return replace(decision, denial=replace(decision.denial, reference=line.id))

    def close(self) -> None:
        """Close the decision log."""
        self._journal.close()

    def context(self, repository: Repository) -> Context:
        """What a decision for `repository` rests on now; facts are asked for as they are needed."""
        return self._context(repository, self._register.current(), self._options.current())

    def _context(self, repository: Repository, register: Register, options: Options) -> Context:
        granted, problem = frozenset[str](), ""
        try:
            granted = self._granted(repository.guid)
        except RediaccError as error:
            problem = error.message
        ref = str(repository.ref)
        return Context(
            ref,
            granted,
            Later(lambda: self._specs.current().names()),
            self._places_of(repository, register),
            options.allowed(ref),
            problem,
        )

    def _granted(self, guid: str) -> frozenset[str]:
        """The devices that the repository `guid` may use; found anew when grants change or one expires."""
        grants, now = self._grants.current(), self._clock()
        known = self._live.get(guid)
        if known is None or known[0] is not grants or not known[1] <= now < known[2]:
            expiries = (grant.expires_at or _NEVER for grant in grants.of(guid) if grant.is_live(now))
            known = grants, now, min(expiries, default=_NEVER), grants.live(guid, now)
            self._live[guid] = known
        return known[3]

    def live_grants(self) -> dict[str, int]:
        """How many grants admit something now, by repository; none where the files cannot be read."""
        try:
            repositories = self._register.current().repositories
            return {known.slug: len(self._granted(known.guid)) for known in repositories}
        except RediaccError:
            return {}

    def failed_reads(self) -> dict[str, int]:
        """How often each of the gate's files could not be read; a wrong options file counts once."""
        options = self._options.current()
        if options is not self._seen_options:
            self._seen_options = options
            self._wrong_options += bool(options.problem)
        return {
            "register": self._register.failures,
            "grants": self._grants.failures,
            "options": self._wrong_options,
        }

    def _read_register(self, slug: str) -> Register:
        try:
            return self._register.current()
        except RediaccError as error:
            raise DenialError(_unknown(slug, f" ({error.message})")) from error

    def answer(self, repository: Repository, queries: tuple[Query, ...]) -> dict[Query, Answer]:
        """What the daemon of `repository` and the kernel say to `queries`."""
        return answers(queries, repository.socket, lambda: self.build_problem(repository), self._layout.host)

    def build_problem(self, repository: Repository) -> str:
        """What leaves the builds of `repository` open; empty where nothing does."""
        settings = self._settings_of(repository)
        named = cast("list[str]", settings.get("cdi-spec-dirs") or ["/etc/cdi", "/var/run/cdi"])
        return build_problem(settings, {self._layout.cdi_dir, *map(Path, named)})

    def _settings_of(self, repository: Repository) -> Settings:
        path = repository.daemon_json
        if path not in self._settings:
            self._settings[path] = CachedFile(path, lambda: _read_settings(path))
        return self._settings[path].current()

    def _places_of(self, repository: Repository, register: Register) -> Places:
        settings = self._settings_of(repository)
        known = self._places.get(repository.guid)
        if known is None or known[0] is not register or known[1] is not settings:
            found = places(self._layout, repository, settings, self._closed_by(register))
            known = (register, settings, found)
            self._places[repository.guid] = known
        return known[2]

    def _closed_by(self, register: Register) -> Closed:
        # The same for all repositories: a thousand of them must not look at each other's files in turn.
        if self._closed is None or self._closed[0] is not register:
            self._closed = (register, closed(self._layout, register))
        return self._closed[1]


@cache
def slug_of(socket_path: str) -> str:
    """The slug of the repository whose plugin socket this is. There are as many paths as sockets."""
    return Path(socket_path).stem.removeprefix("rediacc-")


_NEVER = datetime.max.replace(tzinfo=UTC)
_NO_REQUEST = Request("", "", None)


def _read_settings(path: Path) -> Settings:
    """A daemon.json; nothing where it cannot be read, which leaves builds refused."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _unknown(slug: str, why: str = "") -> Denial:
    return Denial(
        "unknown-repository",
        f"this machine does not know the repository {slug}{why}",
        "An operator can register it: renet repo adopt NAME --socket PATH",
    )

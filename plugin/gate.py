"""What the gate knows of its machine, and the judgment of one message: the edge around `decide`."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from grants_cli.register import Repository
from grants_cli.store import cached_grants, cached_register
from grants_cli.times import utc_now
from plugin import message
from plugin.decide import Context, Decision, decide
from plugin.denial import Denial, DenialError
from spec.errors import RediaccError
from spec.layout import Layout
from spec.registry import CachedRegistry

Clock = Callable[[], datetime]


class Gate:
    """Answers for every repository of one machine.

    Grants, register and specs are read again only when their files have changed, so a change counts from
    the next request on and a request's cost does not grow with the files.
    """

    def __init__(self, layout: Layout, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._register = cached_register(layout)
        self._grants = cached_grants(layout)
        self._specs = CachedRegistry((layout.cdi_dir,))

    def judge(self, socket_path: str, body: bytes) -> Decision:
        """Judge the authorization message `body` that arrived on the plugin socket `socket_path`."""
        try:
            return decide(message.parse(body), self._context(self._repository(socket_path)))
        except DenialError as error:
            return Decision(False, error.denial)

    def _repository(self, socket_path: str) -> Repository:
        slug = Path(socket_path).stem.removeprefix("rediacc-")
        try:
            repository = self._register.current().by_slug.get(slug)
        except RediaccError as error:
            raise DenialError(_unknown(slug, f" ({error.message})")) from error
        if repository is None:
            raise DenialError(_unknown(slug))
        return repository

    def _context(self, repository: Repository) -> Context:
        try:
            granted = self._grants.current().live(repository.guid, self._clock())
        except RediaccError as error:
            raise DenialError(_unreadable_grants(error)) from error
        return Context(str(repository.ref), granted, self._specs.current().names())


def _unknown(slug: str, why: str = "") -> Denial:
    return Denial(
        "unknown-repository",
        f"this machine does not know the repository {slug}{why}",
        "An operator can register it: renet repo adopt NAME --socket PATH",
    )


def _unreadable_grants(error: RediaccError) -> Denial:
    return Denial(
        "grants-unreadable",
        f"this machine's grants cannot be read: {error.message}",
        "An operator can see what is wrong: renet gpu check",
    )

"""Grants and repositories against a model of a few lines: whatever is done, both say the same."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from grants_cli import audit, repositories
from grants_cli.changes import Terms
from grants_cli.devices import Devices
from grants_cli.granting import give, take
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore, Transaction, read_grants, read_register
from spec.errors import RefusedError
from spec.layout import Layout
from spec.registry import CachedRegistry
from tests.unit.grants_cli.specs import CONTROL, write_spec

START = datetime(2026, 1, 31, 10, 0, 0, tzinfo=UTC)
#: Names, and the GPUs behind them.
GPUS = {
    "v.com/gpu=0": {0},
    "v.com/gpu=GPU-0": {0},
    "v.com/gpu=1": {1},
    "v.com/gpu=all": {0, 1},
    "v.com/gpu=2": {2},
}
NAMES = st.sampled_from(["a", "b", "c", "a:t", "b:t"])
DEVICES = st.lists(st.sampled_from(sorted(GPUS)), min_size=1, max_size=3, unique=True)


@dataclass
class Held:
    """What the model knows of a grant."""

    exclusive: bool
    expires_at: datetime | None


@dataclass
class Model:
    """Repositories by GUID, each with its name and its grants."""

    names: dict[str, str] = field(default_factory=dict)
    grants: dict[str, dict[str, Held]] = field(default_factory=dict)

    def live(self, guid: str, now: datetime) -> dict[str, Held]:
        own = self.grants.get(guid, {})
        return {name: held for name, held in own.items() if held.expires_at is None or now < held.expires_at}

    def in_the_way(self, guid: str, device: str, exclusive: bool, now: datetime) -> bool:
        return any(
            (exclusive or held.exclusive) and GPUS[device] & GPUS[name]
            for other in self.grants
            if other != guid
            for name, held in self.live(other, now).items()
        )


class GrantsAgainstModel(RuleBasedStateMachine):
    """Grant, revoke, let time pass, create, fork, delete and rename."""

    repositories = Bundle("repositories")

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.layout = Layout.at(Path(self._directory.name))
        cards = {name.partition("=")[2]: [f"/dev/v{gpu}" for gpu in gpus] for name, gpus in GPUS.items()}
        write_spec(self.layout, "v.com/gpu", cards, CONTROL)
        self.machine = Devices(self.layout)
        self.now = START
        self.model = Model()
        self.former: set[str] = set()

    def teardown(self) -> None:
        self._directory.cleanup()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with GrantStore(self.layout).transaction() as transaction:
            transaction.now = self.now
            yield transaction

    def _add(self, name: str) -> str | None:
        ref, guid = Ref.parse(name), repositories.new_guid()
        places = repositories.Places.managed(self.layout, ref, guid)
        new = Repository(guid, ref, places.socket, places.data_root, places.daemon_json, True, self.now)
        taken = name in self.model.names.values()
        try:
            with self.transaction() as transaction:
                repositories.add(transaction, new, "test")
        except RefusedError:
            assert taken
            return None
        assert not taken
        self.model.names[guid] = name
        return guid

    @rule(target=repositories, name=NAMES)
    def create(self, name: str) -> str | None:
        return self._add(name)

    @rule(target=repositories, parent=repositories, name=NAMES)
    def fork(self, parent: str | None, name: str) -> str | None:
        if parent not in self.model.names:
            return None
        return self._add(name)

    @rule(guid=consumes(repositories))
    def delete(self, guid: str | None) -> None:
        if guid not in self.model.names:
            return
        with self.transaction() as transaction:
            repositories.delete(transaction, transaction.register.by_guid[guid])
        del self.model.names[guid]
        self.model.grants.pop(guid, None)
        self._sweep()

    @rule(guid=repositories, name=NAMES)
    def rename(self, guid: str | None, name: str) -> None:
        if guid not in self.model.names:
            return
        ref = Ref.parse(name)
        places = repositories.Places.managed(self.layout, ref, guid)
        taken = any(other != guid and theirs == name for other, theirs in self.model.names.items())
        try:
            with self.transaction() as transaction:
                repositories.rename(transaction, transaction.register.by_guid[guid], ref, places)
        except RefusedError:
            assert taken
            return
        assert not taken
        self.model.names[guid] = name

    @rule(
        guid=repositories,
        devices=DEVICES,
        exclusive=st.sampled_from([None, True, False]),
        seconds=st.none() | st.integers(1, 100),
    )
    def grant(
        self, guid: str | None, devices: list[str], exclusive: bool | None, seconds: int | None
    ) -> None:
        if guid not in self.model.names:
            return
        expires_at = self.now + timedelta(seconds=seconds) if seconds else None
        live = self.model.live(guid, self.now)
        wanted, changed = {}, False
        for device in devices:
            old = live.get(device)
            wanted[device] = Held(
                exclusive if exclusive is not None else bool(old and old.exclusive),
                expires_at or (old.expires_at if old else None),
            )
            changed = changed or old != wanted[device]
        refused = any(
            self.model.in_the_way(guid, device, held.exclusive, self.now)
            for device, held in wanted.items()
            if live.get(device) != held
        )
        terms = Terms("test", exclusive, expires_at)
        try:
            with self.transaction() as transaction:
                give(transaction, transaction.register.by_guid[guid], tuple(devices), terms, self.machine)
        except RefusedError:
            assert refused
            return
        assert not refused
        if changed:
            self.model.grants.setdefault(guid, {}).update(wanted)
            self._sweep()

    @rule(guid=repositories, devices=DEVICES)
    def revoke(self, guid: str | None, devices: list[str]) -> None:
        if guid not in self.model.names:
            return
        own = self.model.grants.get(guid, {})
        changed = set(own) & set(devices)
        with self.transaction() as transaction:
            take(transaction, guid, devices)
        for device in changed:
            del own[device]
        if changed:
            self._sweep()

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def _sweep(self) -> None:
        self.model.grants = {
            guid: live for guid in self.model.grants if (live := self.model.live(guid, self.now))
        }

    @invariant()
    def both_say_the_same(self) -> None:
        register, grants = read_register(self.layout), read_grants(self.layout)
        assert {each.guid: str(each.ref) for each in register.repositories} == self.model.names
        for guid in self.model.names:
            assert grants.live(guid, self.now) == set(self.model.live(guid, self.now))
        assert set(grants.by_guid) <= set(self.model.names)

    @invariant()
    def an_exclusive_gpu_has_one_holder(self) -> None:
        grants = read_grants(self.layout)
        live = [
            (guid, GPUS[grant.device], grant.exclusive)
            for guid, own in grants.by_guid.items()
            for grant in own
            if grant.is_live(self.now)
        ]
        for guid, gpus, exclusive in live:
            assert not exclusive or all(other == guid or not gpus & theirs for other, theirs, _ in live)

    @invariant()
    def each_view_holds_what_is_granted(self) -> None:
        # Time passes without a write: a view is then too wide by what has expired, and the gate is not.
        grants = read_grants(self.layout)
        for each in read_register(self.layout).repositories:
            seen = set(CachedRegistry([self.layout.view_dir(each.slug)]).current().names())
            assert (
                grants.live(each.guid, self.now) <= seen <= {grant.device for grant in grants.of(each.guid)}
            )

    @invariant()
    def the_log_tells_the_whole_story(self) -> None:
        played: dict[str, object] = {}
        for line in audit.read(self.layout.audit_log):
            for change in line.get("grants", ()):  # type: ignore[attr-defined]
                played[change["guid"]] = change["after"]
        assert {guid: own for guid, own in played.items() if own} == read_grants(self.layout).to_records()


TestGrantsAgainstModel = GrantsAgainstModel.TestCase
TestGrantsAgainstModel.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)

"""Terms, expiry and exclusive grants."""

from datetime import UTC, datetime, timedelta

import pytest

from grants_cli import times
from grants_cli.changes import Change, Terms
from grants_cli.devices import Devices
from grants_cli.granting import give, take
from grants_cli.grants import Grant, Grants
from grants_cli.store import GrantStore
from spec.errors import InvalidNameError, NotFoundError, RefusedError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, register
from tests.unit.grants_cli.specs import CONTROL, NVIDIA, write_spec
from tests.unit.grants_cli.test_overlap import DRI, two_cards

LATER = NOW.replace(year=2099)
GPU = "nvidia.com/gpu"


@pytest.fixture
def machine(layout: Layout) -> Layout:
    two_cards(layout.root)
    write_spec(layout, GPU, NVIDIA, CONTROL)
    write_spec(layout, "rediacc.io/dri", DRI)
    for name in ("gpu-a", "gpu-b"):
        register(layout, name)
    return layout


def grant(layout: Layout, ref: str, *devices: str, **terms: object) -> Change:
    with GrantStore(layout).transaction() as transaction:
        wanted = Terms("root", **terms)  # type: ignore[arg-type]
        return give(transaction, transaction.register.get(ref), devices, wanted, Devices(layout))


def revoke(layout: Layout, ref: str, *devices: str) -> Change:
    with GrantStore(layout).transaction() as transaction:
        return take(transaction, transaction.register.get(ref).guid, devices)


def of(layout: Layout, ref: str) -> dict[str, Grant]:
    store = GrantStore(layout)
    return {each.device: each for each in store.read().of(store.read_register().get(ref).guid)}


def test_the_card_is_recorded_with_the_name(machine: Layout) -> None:
    grant(machine, "gpu-a", f"{GPU}=0")
    assert of(machine, "gpu-a")[f"{GPU}=0"].cards == ("0000:02:00.0",)


def test_a_shared_grant_becomes_exclusive_when_nobody_else_holds_the_device(machine: Layout) -> None:
    grant(machine, "gpu-a", f"{GPU}=0")
    grant(machine, "gpu-b", "rediacc.io/dri=renderD129")
    with pytest.raises(
        RefusedError, match=r"gpu-b holds rediacc.io/dri=renderD129, .* \(/dev/dri/renderD129\)"
    ):
        grant(machine, "gpu-a", f"{GPU}=0", exclusive=True)
    assert not of(machine, "gpu-a")[f"{GPU}=0"].exclusive
    revoke(machine, "gpu-b", "rediacc.io/dri=renderD129")
    assert grant(machine, "gpu-a", f"{GPU}=0", exclusive=True).changed == (f"{GPU}=0",)
    assert of(machine, "gpu-a")[f"{GPU}=0"].exclusive


def test_repeating_a_grant_takes_nothing_away(machine: Layout) -> None:
    grant(machine, "gpu-a", f"{GPU}=0", exclusive=True, expires_at=LATER)
    change = grant(machine, "gpu-a", f"{GPU}=0")
    assert change.changed == ()
    assert change.unchanged == (f"{GPU}=0",)
    assert (of(machine, "gpu-a")[f"{GPU}=0"].exclusive, of(machine, "gpu-a")[f"{GPU}=0"].expires_at) == (
        True,
        LATER,
    )
    grant(machine, "gpu-a", f"{GPU}=0", exclusive=False, never_expires=True)
    assert (of(machine, "gpu-a")[f"{GPU}=0"].exclusive, of(machine, "gpu-a")[f"{GPU}=0"].expires_at) == (
        False,
        None,
    )


def test_all_conflicts_are_told_at_once_and_nothing_is_granted(machine: Layout) -> None:
    grant(machine, "gpu-b", f"{GPU}=0", f"{GPU}=1", exclusive=True)
    with pytest.raises(RefusedError) as error:
        grant(machine, "gpu-a", "rediacc.io/dri=renderD130", f"{GPU}=1", "rediacc.io/dri=renderD129")
    assert error.value.message.count("gpu-b holds") == 2
    assert "gpu-b holds it exclusively" in error.value.message
    assert of(machine, "gpu-a") == {}


def test_one_repository_may_hold_several_names_of_its_gpu(machine: Layout) -> None:
    grant(machine, "gpu-a", f"{GPU}=all", exclusive=True)
    grant(machine, "gpu-a", f"{GPU}=0", f"{GPU}=GPU-aaaaaaaa-0000", exclusive=True)
    assert len(of(machine, "gpu-a")) == 3


def test_an_expired_grant_admits_nothing_and_keeps_nobody_out(machine: Layout) -> None:
    guid = GrantStore(machine).read_register().get("gpu-b").guid
    expired = Grant(f"{GPU}=0", True, NOW, "root", NOW + timedelta(hours=8))
    with GrantStore(machine).transaction() as transaction:
        transaction.now = NOW
        transaction.commit("test", transaction.grants.replaced(guid, [expired]))
    stored = GrantStore(machine).read()
    last = NOW + timedelta(hours=8) - timedelta(microseconds=1)
    assert stored.live(guid, last) == {f"{GPU}=0"}
    assert stored.live(guid, NOW + timedelta(hours=8)) == frozenset()
    assert stored.of(guid) == (Grant(f"{GPU}=0", True, NOW, "root", NOW + timedelta(hours=8)),)
    assert grant(machine, "gpu-a", f"{GPU}=all", exclusive=True).changed == (f"{GPU}=all",)
    assert of(machine, "gpu-b") == {}


def test_an_expired_grant_can_be_given_again(machine: Layout) -> None:
    guid = GrantStore(machine).read_register().get("gpu-a").guid
    expired = Grant(f"{GPU}=0", True, NOW, "root", NOW + timedelta(hours=8))
    with GrantStore(machine).transaction() as transaction:
        transaction.now = NOW
        transaction.commit("test", transaction.grants.replaced(guid, [expired]))
    assert grant(machine, "gpu-a", f"{GPU}=0").changed == (f"{GPU}=0",)
    (renewed,) = of(machine, "gpu-a").values()
    assert (renewed.exclusive, renewed.expires_at) == (False, None)


def test_names_that_the_machine_no_longer_has_can_be_revoked(machine: Layout) -> None:
    grant(machine, "gpu-a", f"{GPU}=0", f"{GPU}=1")
    for path in machine.cdi_dir.iterdir():
        path.unlink()
    assert revoke(machine, "gpu-a", f"{GPU}=0", "gone.com/gpu=9").changed == (f"{GPU}=0",)
    with pytest.raises(NotFoundError, match="=1"):
        grant(machine, "gpu-a", f"{GPU}=1")
    assert list(of(machine, "gpu-a")) == [f"{GPU}=1"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("30m", 1800),
        ("8h", 28800),
        ("1d12h", 129600),
        ("2w", 1209600),
        ("2026-01-31T10:00:01Z", 1),
    ],
)
def test_an_expiry(text: str, seconds: int) -> None:
    assert times.parse_expiry(text, NOW) == NOW + timedelta(seconds=seconds)


def test_an_expiry_with_an_offset_is_kept_in_utc() -> None:
    moment = times.parse_expiry("2026-12-31T18:00+01:00", NOW)
    assert times.to_text(moment) == "2026-12-31T17:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8",
        "h",
        "0s",
        "-1h",
        "8 h",
        "8h30",
        "1.5h",
        "999999999w",
        "2026-12-31",
        "2026-12-31T18:00",
        "tomorrow",
        "2026-02-30T10:00Z",
        "2026-01-31T10:00:00Z",
        "2025-12-31T18:00Z",
        "2026-12-31T25:00Z",
        "8h\n",
    ],
)
def test_no_expiry(text: str) -> None:
    with pytest.raises(InvalidNameError):
        times.parse_expiry(text, NOW)


def test_no_grant_is_live_in_its_last_second_plus_one() -> None:
    expiring = Grant(f"{GPU}=0", False, NOW, "root", datetime(2026, 2, 1, tzinfo=UTC))
    assert expiring.is_live(datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC))
    assert not expiring.is_live(datetime(2026, 2, 1, tzinfo=UTC))
    assert Grants({"x": (expiring,)}).swept(datetime(2026, 2, 1, tzinfo=UTC)).by_guid == {}

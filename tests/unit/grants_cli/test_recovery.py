"""What is damaged is named, and the newest good state comes back, without what must not."""

from datetime import timedelta
from pathlib import Path

import pytest

from grants_cli import audit, generations, recovery, repositories
from grants_cli.documents import Kind
from grants_cli.grants import Grant
from grants_cli.store import GrantStore
from grants_cli.times import utc_now
from spec.errors import UntrustedError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, register


def give(layout: Layout, guid: str, *grants: Grant) -> None:
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("grant", transaction.grants.replaced(guid, grants))


def a_grant(device: str, **changes: object) -> Grant:
    return Grant(f"nvidia.com/gpu={device}", False, NOW, "root", **changes)  # type: ignore[arg-type]


def test_nothing_is_restored_where_nothing_is_wrong(layout: Layout) -> None:
    give(layout, register(layout, "gpu-a").guid, a_grant("0"))
    assert [report.problem for report in recovery.inspect(layout)] == ["", ""]
    assert recovery.restore(layout) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":2,"grants":{}}', None])
def test_the_newest_state_comes_back(layout: Layout, content: bytes | None) -> None:
    guid = register(layout, "gpu-a").guid
    give(layout, guid, a_grant("0"))
    give(layout, guid, a_grant("1"))
    if content is None:
        layout.grants.unlink()
    else:
        layout.grants.write_bytes(content)
    (restored,) = recovery.restore(layout)
    assert restored.path == layout.grants
    assert restored.lost_changes == ()
    assert GrantStore(layout).read().of(guid) == (a_grant("1"),)
    assert (restored.set_aside.read_bytes() if restored.set_aside else None) == content
    assert layout.grants.stat().st_mode & 0o777 == 0o600


def test_a_damaged_copy_is_passed_over_and_the_lost_changes_are_named(layout: Layout) -> None:
    guid = register(layout, "gpu-a").guid
    give(layout, guid, a_grant("0"))
    give(layout, guid, a_grant("1"))
    generations.kept(layout.generations, Kind.GRANTS)[0].path.write_bytes(b"{")
    layout.grants.write_bytes(b"{")
    (restored,) = recovery.restore(layout)
    assert len(restored.lost_changes) == 1
    assert " grant by " in restored.lost_changes[0]
    assert GrantStore(layout).read().of(guid) == (a_grant("0"),)


def test_a_dry_run_changes_nothing(layout: Layout) -> None:
    give(layout, register(layout, "gpu-a").guid, a_grant("0"))
    layout.grants.write_bytes(b"{")
    before = sorted(layout.generations.iterdir()), layout.audit_log.read_bytes()
    (restored,) = recovery.restore(layout, dry_run=True)
    assert restored.generation == generations.kept(layout.generations, Kind.GRANTS)[0]
    assert layout.grants.read_bytes() == b"{"
    assert (sorted(layout.generations.iterdir()), layout.audit_log.read_bytes()) == before


def test_neither_expired_grants_nor_those_of_deleted_repositories_come_back(layout: Layout) -> None:
    one, other = register(layout, "gpu-a"), register(layout, "gpu-b")
    soon = utc_now() + timedelta(hours=1)
    give(layout, one.guid, a_grant("0", expires_at=soon), a_grant("1"))
    give(layout, other.guid, a_grant("2"))
    good = generations.kept(layout.generations, Kind.GRANTS)[0].path
    with GrantStore(layout).transaction() as transaction:
        repositories.delete(transaction, transaction.register.get("gpu-b"))
    for kept in generations.kept(layout.generations, Kind.GRANTS):
        if kept.path != good:
            kept.path.unlink()
    # As if the hour had passed since.
    good.write_bytes(good.read_bytes().replace(soon.strftime("%Y-%m-%d").encode(), b"2026-01-31"))
    layout.grants.write_bytes(b"{")
    recovery.restore(layout)
    assert GrantStore(layout).read().by_guid == {one.guid: (a_grant("1"),)}


def test_without_a_good_copy_nothing_is_touched(layout: Layout) -> None:
    give(layout, register(layout, "gpu-a").guid, a_grant("0"))
    for kept in generations.kept(layout.generations, Kind.GRANTS):
        kept.path.write_bytes(b"{")
    layout.grants.write_bytes(b"{")
    layout.register.write_bytes(b"{")
    with pytest.raises(UntrustedError, match="no good copy"):
        recovery.restore(layout)
    assert layout.register.read_bytes() == layout.grants.read_bytes() == b"{"


def test_the_register_comes_back_too(layout: Layout) -> None:
    repository = register(layout, "gpu-a")
    layout.register.write_bytes(b"[]")
    assert [restored.path for restored in recovery.restore(layout)] == [layout.register]
    assert GrantStore(layout).read_register().repositories == (repository,)


def test_few_states_are_kept(layout: Layout) -> None:
    guid = register(layout, "gpu-a").guid
    for number in range(9):
        give(layout, guid, a_grant(str(number)))
    kept = generations.kept(layout.generations, Kind.GRANTS)
    assert len(kept) == generations.KEEP
    assert kept[0].path.read_bytes() == layout.grants.read_bytes()
    assert kept[0].path.stat().st_ino != layout.grants.stat().st_ino


def test_the_restoration_is_in_the_audit_log(layout: Layout) -> None:
    give(layout, register(layout, "gpu-a").guid, a_grant("0"))
    layout.grants.write_bytes(b"{")
    recovery.restore(layout)
    *_, last = audit.read(layout.audit_log)
    assert last["action"] == "restore"
    assert last["restored"] == [{"file": "grants.json", "generation": 2}]


def test_a_directory_in_the_place_of_a_file_is_set_aside(layout: Layout) -> None:
    guid = register(layout, "gpu-a").guid
    give(layout, guid, a_grant("0"))
    layout.grants.unlink()
    layout.grants.mkdir()
    (restored,) = recovery.restore(layout)
    assert restored.set_aside is not None
    assert Path(restored.set_aside).is_dir()
    assert GrantStore(layout).read().of(guid) == (a_grant("0"),)

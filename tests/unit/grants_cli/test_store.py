"""What is written is what is read; what cannot be trusted is neither believed nor overwritten."""

import json
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from grants_cli import documents
from grants_cli.documents import Kind
from grants_cli.grants import Grant, Grants
from grants_cli.store import GrantStore
from spec.errors import UntrustedError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, register

GUID = "11111111-2222-3333-4444-555555555555"
RECORD = {
    "device": "nvidia.com/gpu=all",
    "exclusive": False,
    "grantedAt": "2026-01-31T10:00:00Z",
    "grantedBy": "root",
    "expiresAt": None,
}


def document(**changes: object) -> dict[str, object]:
    return {"version": 1, "grants": {GUID: [{**RECORD, **changes}]}}


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o600)


def test_a_machine_begins_with_nothing(layout: Layout) -> None:
    store = GrantStore(layout)
    assert store.read() == Grants()
    assert store.read_register().repositories == ()


def test_what_is_saved_is_read(layout: Layout) -> None:
    repository = register(layout, "gpu-a:test")
    grants = [
        Grant("nvidia.com/gpu=0", True, NOW, "alice", NOW.replace(year=2099)),
        Grant("rediacc.io/dri=renderD128", False, NOW, "bob", cards=("0000:01:00.0",)),
    ]
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("test", transaction.grants.replaced(repository.guid, grants))
    assert GrantStore(layout).read().of(repository.guid) == tuple(grants)
    assert GrantStore(layout).read_register().get("gpu-a:test") == repository


def test_the_file_has_the_published_form(layout: Layout) -> None:
    write(layout.grants, json.dumps(document()))
    (grant,) = GrantStore(layout).read().of(GUID)
    assert grant == Grant("nvidia.com/gpu=all", False, NOW, "root")
    assert grant.to_record() == RECORD


@pytest.mark.parametrize("path", ["grants", "register", "audit_log", "grants_lock"])
def test_files_are_roots_alone(layout: Layout, path: str) -> None:
    os.umask(0o022)
    repository = register(layout, "gpu-a")
    with GrantStore(layout).transaction() as transaction:
        grant = Grant("nvidia.com/gpu=0", False, NOW, "root")
        transaction.commit("test", transaction.grants.replaced(repository.guid, [grant]))
    assert stat.S_IMODE(getattr(layout, path).stat().st_mode) == 0o600
    assert all(stat.S_IMODE(kept.stat().st_mode) == 0o600 for kept in layout.generations.iterdir())


DAMAGED = {
    "empty": b"",
    "cut off": json.dumps(document()).encode()[:-9],
    "not UTF-8": b"\xff\xfe",
    "UTF-16": json.dumps(document()).encode("utf-16"),
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no version": json.dumps({"grants": {}}),
    "a later version": json.dumps({"version": 2, "grants": {}}),
    "a version that is true": json.dumps({"version": True, "grants": {}}),
    "an unknown key": json.dumps({**document(), "extra": 1}),
    "a repository without grants": json.dumps({"version": 1, "grants": {GUID: []}}),
    "no GUID": json.dumps({"version": 1, "grants": {"gpu-a": [RECORD]}}),
    "a key twice": '{"version":1,"grants":{},"grants":{}}',
    "a device twice": json.dumps({"version": 1, "grants": {GUID: [RECORD, {**RECORD, "exclusive": True}]}}),
    "no device name": json.dumps(document(device="/dev/nvidia0")),
    "a device name that ends in a newline": json.dumps(document(device="nvidia.com/gpu=0\n")),
    "a one-letter vendor": json.dumps(document(device="n/gpu=0")),
    "exclusive as a number": json.dumps(document(exclusive=1)),
    "a local time": json.dumps(document(grantedAt="2026-01-31T10:00:00")),
    "an offset": json.dumps(document(grantedAt="2026-01-31T10:00:00+01:00")),
    "a day that does not exist": json.dumps(document(expiresAt="2026-02-30T10:00:00Z")),
    "no expiry": json.dumps(
        {"version": 1, "grants": {GUID: [{k: v for k, v in RECORD.items() if k != "expiresAt"}]}}
    ),
    "an unknown grant key": json.dumps(document(shared=True)),
    "granted by nobody": json.dumps(document(grantedBy="")),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_not_believed_nor_overwritten(layout: Layout, content: bytes | str) -> None:
    write(layout.grants, content)
    before = layout.grants.read_bytes(), layout.grants.stat().st_ino
    with pytest.raises(UntrustedError, match="cannot be trusted"):
        GrantStore(layout).read()
    with pytest.raises(UntrustedError), GrantStore(layout).transaction() as transaction:
        transaction.commit("test", Grants())
    assert (layout.grants.read_bytes(), layout.grants.stat().st_ino) == before


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_believed(layout: Layout, mode: int) -> None:
    write(layout.grants, json.dumps(document()))
    layout.grants.chmod(mode)
    with pytest.raises(UntrustedError, match="others than its owner may write it"):
        GrantStore(layout).read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_believed(layout: Layout) -> None:
    write(layout.grants, json.dumps(document()))
    os.chown(layout.grants, 12345, 0)
    with pytest.raises(UntrustedError, match="belongs to user 12345"):
        GrantStore(layout).read()


def _symlink(path: Path) -> None:
    write(path.with_name("elsewhere.json"), json.dumps(document()))
    path.symlink_to(path.with_name("elsewhere.json"))


@pytest.mark.parametrize("make", [_symlink, Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_believed(layout: Layout, make: object) -> None:
    assert callable(make)
    layout.grants.parent.mkdir(parents=True)
    make(layout.grants)
    with pytest.raises(UntrustedError):
        GrantStore(layout).read()


def test_two_repositories_of_one_name_are_not_believed(layout: Layout) -> None:
    first, second = register(layout, "gpu-a"), register(layout, "gpu-b")
    content = json.loads(layout.register.read_bytes())
    content["repositories"][second.guid]["ref"] = str(first.ref)
    write(layout.register, json.dumps(content))
    with pytest.raises(UntrustedError, match="two repositories have one name"):
        GrantStore(layout).read_register()


def test_nothing_that_would_not_be_read_is_written() -> None:
    with pytest.raises(UntrustedError, match=r"^the new grants"):
        documents.encode({"version": 1, "grants": {"gpu-a": []}}, Kind.GRANTS)


def test_a_change_that_the_schema_does_not_allow_changes_nothing(layout: Layout) -> None:
    repository = register(layout, "gpu-a")
    lines = layout.audit_log.read_bytes()
    for wrong in (Grant("/dev/nvidia0", False, NOW, "root"), Grant("nvidia.com/gpu=0", False, NOW, "")):
        with (
            pytest.raises(UntrustedError, match="the new grants"),
            GrantStore(layout).transaction() as change,
        ):
            change.commit("test", change.grants.replaced(repository.guid, [wrong]))
    assert not layout.grants.exists()
    assert layout.audit_log.read_bytes() == lines


@pytest.mark.parametrize("content", ["", "{}", '{"version":2,"repositories":{}}'])
def test_a_damaged_register_is_not_believed_nor_overwritten(layout: Layout, content: str) -> None:
    write(layout.register, content)
    with pytest.raises(UntrustedError, match="cannot be trusted"):
        register(layout, "gpu-a")
    assert layout.register.read_text() == content


def test_an_expired_grant_is_swept_by_the_next_write(layout: Layout) -> None:
    one, other = register(layout, "gpu-a"), register(layout, "gpu-b")
    expired = Grant("nvidia.com/gpu=0", True, NOW, "root", NOW + timedelta(seconds=1))
    live = Grant("nvidia.com/gpu=1", False, NOW, "root")
    write(
        layout.grants,
        documents.encode({"version": 1, "grants": {one.guid: [expired.to_record()]}}, Kind.GRANTS),
    )
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("test", transaction.grants.replaced(other.guid, [live]))
    assert GrantStore(layout).read().by_guid == {other.guid: (live,)}


def test_leftovers_of_killed_writers_go_with_the_next_write(layout: Layout) -> None:
    layout.register.parent.mkdir(parents=True)
    leftover = layout.register.with_name(".repositories.json.abcdef.tmp")
    leftover.write_bytes(b"half")
    register(layout, "gpu-a")
    assert not leftover.exists()

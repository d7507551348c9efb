"""Every change leaves its line, on the disk before the change, with who, what, when, before and after."""

import json
import os
from pathlib import Path

import pytest

from grants_cli import audit, repositories
from grants_cli.grants import Grant
from grants_cli.store import GrantStore
from spec.errors import StorageError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, register

GRANT = Grant("nvidia.com/gpu=0", True, NOW, "root")


def test_a_grant_and_its_repository_are_told_from_before_to_after(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    monkeypatch.setenv("SUDO_UID", "1234")
    repository = register(layout, "gpu-a")
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("grant", transaction.grants.replaced(repository.guid, [GRANT]))
    with GrantStore(layout).transaction() as transaction:
        repositories.delete(transaction, repository)
    added, granted, deleted = audit.read(layout.audit_log)
    who = ("alice", 1234) if os.geteuid() == 0 else (granted["operator"], os.getuid())
    assert (granted["operator"], granted["uid"]) == who
    assert granted["action"] == "grant"
    assert added["repositories"] == [
        {"guid": repository.guid, "before": None, "after": repository.to_record()}
    ]
    own = {"guid": repository.guid, "repository": "gpu-a"}
    assert granted["grants"] == [{**own, "before": [], "after": [GRANT.to_record()]}]
    assert deleted["grants"] == [{**own, "before": [GRANT.to_record()], "after": []}]
    assert deleted["repositories"] == [
        {"guid": repository.guid, "before": repository.to_record(), "after": None}
    ]
    assert str(granted["time"]).endswith("Z")


def test_no_line_no_change(layout: Layout) -> None:
    guid = register(layout, "gpu-a").guid
    layout.audit_log.unlink()
    layout.audit_log.mkdir()
    with (
        pytest.raises(StorageError, match=r"cannot write the audit log .*; nothing has changed"),
        GrantStore(layout).transaction() as transaction,
    ):
        transaction.commit("grant", transaction.grants.replaced(guid, [GRANT]))
    assert GrantStore(layout).read().of(guid) == ()


def test_a_change_that_fails_is_followed_by_a_line_that_says_so(layout: Layout) -> None:
    guid = register(layout, "gpu-a").guid
    for kept in layout.generations.iterdir():
        kept.unlink()
    layout.generations.rmdir()
    layout.generations.write_bytes(b"in the way")
    with pytest.raises(StorageError), GrantStore(layout).transaction() as transaction:
        transaction.commit("grant", transaction.grants.replaced(guid, [GRANT]))
    *_, attempt, failed = audit.read(layout.audit_log)
    assert "failed" not in attempt
    assert "cannot write" in str(failed["failed"])
    assert (failed["action"], failed["generation"]) == (attempt["action"], attempt["generation"])


def test_a_change_that_changes_nothing_leaves_no_line(layout: Layout) -> None:
    register(layout, "gpu-a")
    before = layout.audit_log.read_bytes(), layout.register.stat().st_ino
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("grant", transaction.grants, transaction.register)
    assert (layout.audit_log.read_bytes(), layout.register.stat().st_ino) == before


def test_a_torn_line_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit.append(path, {"action": "one"})
    with path.open("ab") as file:
        file.write(b'{"action": "tor')
    audit.append(path, {"action": "two"})
    assert [line["action"] for line in audit.read(path)] == ["one", "two"]
    assert json.loads(path.read_bytes().splitlines()[0]) == {"action": "one"}

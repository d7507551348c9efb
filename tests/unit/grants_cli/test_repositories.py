"""Grants belong to a GUID: what copies, deletes and renames mean for them."""

import json
import shutil
from pathlib import Path

import pytest

from grants_cli import documents, repositories
from grants_cli.documents import Kind
from grants_cli.grants import Grant
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore, read_grants, read_register
from spec.errors import InvalidNameError, NotFoundError, RefusedError, UntrustedError
from spec.layout import Layout
from tests.unit.grants_cli.conftest import NOW, a_repository, register

GRANT = Grant("nvidia.com/gpu=0", False, NOW, "root")
DOCS = Path(__file__).parents[3] / "docs"


def give(layout: Layout, guid: str) -> None:
    with GrantStore(layout).transaction() as transaction:
        transaction.commit("test", transaction.grants.replaced(guid, [GRANT]))


def add(layout: Layout, repository: Repository) -> None:
    with GrantStore(layout).transaction() as transaction:
        repositories.add(transaction, repository, "test")


def delete(layout: Layout, name: str) -> None:
    with GrantStore(layout).transaction() as transaction:
        repositories.delete(transaction, transaction.register.get(name))


def test_deleting_takes_the_grants_and_a_later_namesake_has_none(layout: Layout) -> None:
    old = register(layout, "gpu-a")
    give(layout, old.guid)
    delete(layout, "gpu-a")
    assert read_grants(layout).by_guid == {}
    new = register(layout, "gpu-a")
    assert new.guid != old.guid
    assert read_grants(layout).of(new.guid) == ()


def test_grants_that_outlived_their_repository_are_not_for_who_takes_its_guid(layout: Layout) -> None:
    old = register(layout, "gpu-a")
    give(layout, old.guid)
    stale = layout.grants.read_bytes()
    delete(layout, "gpu-a")
    layout.grants.write_bytes(stale)  # as a backup that was copied back would do
    add(layout, a_repository(layout, "gpu-b", old.guid))
    assert read_grants(layout).by_guid == {}


def test_a_rename_keeps_the_grants(layout: Layout) -> None:
    old = register(layout, "gpu-a")
    give(layout, old.guid)
    ref = Ref.parse("gpu-b:new")
    with GrantStore(layout).transaction() as transaction:
        places = repositories.Places.managed(layout, ref, old.guid)
        repositories.rename(transaction, old, ref, places)
    assert read_register(layout).get("gpu-b:new").guid == old.guid
    assert read_grants(layout).of(old.guid) == (GRANT,)
    with pytest.raises(NotFoundError):
        read_register(layout).get("gpu-a")


def test_a_copy_of_the_data_carries_no_grant(layout: Layout, tmp_path: Path) -> None:
    original = register(layout, "gpu-a")
    give(layout, original.guid)
    original.data_root.mkdir(parents=True)
    (original.data_root / "data").touch()
    for machine in (layout, Layout.at(tmp_path / "another")):
        copied = a_repository(machine, "gpu-copy")
        shutil.copytree(original.data_root.parent, copied.data_root.parent)
        add(machine, copied)
        assert read_grants(machine).of(copied.guid) == ()
    # On another machine not even the GUID brings them along.
    add(machine, a_repository(machine, "gpu-a", original.guid))
    assert read_grants(machine).by_guid == {}


@pytest.mark.parametrize("shared", ["ref", "guid", "socket", "data_root"])
def test_no_two_repositories_share_what_makes_them_one(layout: Layout, shared: str) -> None:
    one = register(layout, "gpu-a")
    other = a_repository(layout, "gpu-b")
    values = {
        "guid": other.guid,
        "ref": other.ref,
        "socket": other.socket,
        "data_root": other.data_root,
        shared: getattr(one, shared),
    }
    with pytest.raises(RefusedError, match="is taken by the repository gpu-a"):
        add(layout, Repository(**values, daemon_json=other.daemon_json, managed=True, created_at=NOW))
    assert read_register(layout).repositories == (one,)


def test_a_name_whose_socket_could_not_be_bound_is_refused() -> None:
    layout = Layout.at("/")
    repositories.check_socket_lengths(layout, Ref.parse("a" * 63))
    with pytest.raises(InvalidNameError, match="Linux could not bind"):
        repositories.check_socket_lengths(layout, Ref.parse("a" * 63 + ":" + "b" * 63))


@pytest.mark.parametrize(
    "text", ["", "gpu-a", "0b7f2a9e3c1d4e5f8a6b7c8d9e0f1a2b", "0b7f2a9e-3c1d-4e5f-8a6b-7c8d9e0f1a2"]
)
def test_what_is_no_guid(text: str) -> None:
    with pytest.raises(InvalidNameError):
        repositories.parse_guid(text)


def test_the_documented_files_are_valid() -> None:
    text = (DOCS / "files.md").read_text()
    examples = [block.partition("```")[0] for block in text.split("```json\n")[1:]]
    kinds = [Kind.GRANTS, Kind.REPOSITORIES]
    for example, kind in zip(examples, kinds, strict=True):
        documents.decode(example.encode(), kind, kind.value)
        broken = json.loads(example) | {"version": 2}
        with pytest.raises(UntrustedError):
            documents.decode(json.dumps(broken).encode(), kind, kind.value)

"""Every change of the grants reaches the view of the repository that it concerns, and no other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grants_cli import repositories, views
from grants_cli.grants import Grant, Grants
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from spec import registry
from spec.errors import StorageError
from spec.layout import Layout
from tests.engine import stand_in

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.at(tmp_path)
    stand_in.write_spec(
        layout.cdi_dir / "nvidia.yaml",
        "nvidia.com/gpu",
        {name: [stand_in.Node(f"/dev/nvidia{name}", "/dev/null")] for name in ("0", "1")},
    )
    return layout


def add(layout: Layout, name: str) -> Repository:
    guid, ref = repositories.new_guid(), Ref.parse(name)
    places = repositories.Places.managed(layout, ref, guid)
    repository = Repository(
        guid, ref, places.socket, places.data_root, places.daemon_json, managed=True, created_at=NOW
    )
    with GrantStore(layout).transaction() as transaction:
        repositories.add(transaction, repository, "repository-create")
    return repository


def grant(layout: Layout, repository: Repository, *names: str, expires_at: datetime | None = None) -> None:
    with GrantStore(layout).transaction() as transaction:
        grants = [Grant(f"nvidia.com/gpu={name}", False, NOW, "root", expires_at) for name in names]
        transaction.commit("grant", transaction.grants.replaced(repository.guid, grants))


def seen(layout: Layout, repository: Repository) -> tuple[str, ...]:
    return tuple(name.partition("=")[2] for name in registry.read([layout.view_dir(repository.slug)]).names())


def test_a_view_follows_grants_and_revocations_of_its_repository_alone(layout: Layout) -> None:
    one, two = add(layout, "one"), add(layout, "two:tag")
    grant(layout, one, "0", "1")
    grant(layout, two, "1")
    assert (seen(layout, one), seen(layout, two)) == (("0", "1"), ("1",))
    grant(layout, one, "1")
    assert (seen(layout, one), seen(layout, two)) == (("1",), ("1",))
    grant(layout, one)
    assert (seen(layout, one), seen(layout, two)) == ((), ("1",))


def test_an_expired_grant_is_in_no_view_after_a_refresh(layout: Layout) -> None:
    one = add(layout, "one")
    expiry = NOW + timedelta(hours=1)
    grants = Grants().replaced(one.guid, [Grant("nvidia.com/gpu=0", False, NOW, "root", expiry)])
    assert views.refresh(layout, [one], grants, expiry - timedelta(seconds=1)) == ("one",)
    assert seen(layout, one) == ("0",)
    assert views.refresh(layout, [one], grants, expiry) == ("one",)
    assert seen(layout, one) == ()


def test_a_revoked_device_has_left_the_view_even_if_the_grants_cannot_be_written(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = add(layout, "one")
    grant(layout, one, "0", "1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grants_cli.store.replace_file", full)
    with pytest.raises(StorageError):
        grant(layout, one, "1")
    assert seen(layout, one) == ("1",)


def test_a_spec_that_is_gone_takes_its_devices_out_of_the_view(layout: Layout) -> None:
    one = add(layout, "one")
    grant(layout, one, "0")
    (layout.cdi_dir / "nvidia.yaml").unlink()
    with GrantStore(layout).transaction() as transaction:
        views.refresh(layout, [one], transaction.grants, transaction.now)
    assert seen(layout, one) == ()


def test_what_the_register_says_of_a_created_repository_reads_back(layout: Layout) -> None:
    one = add(layout, "one")
    full = replace(one, exec_root=Path("/run/x"), group="docker", subnet="10.128.0.0/18")
    assert Repository.from_record(one.guid, full.to_record()) == full

"""A machine below a directory of its own."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from grants_cli import repositories
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore
from spec.layout import Layout

NOW = datetime(2026, 1, 31, 10, 0, 0, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.at(tmp_path)


def a_repository(layout: Layout, name: str, guid: str = "") -> Repository:
    """A value: nothing is registered."""
    ref, guid = Ref.parse(name), guid or repositories.new_guid()
    places = repositories.Places.managed(layout, ref, guid)
    return Repository(guid, ref, places.socket, places.data_root, places.daemon_json, False, NOW)


def register(layout: Layout, name: str, guid: str = "") -> Repository:
    """Register a repository of that name."""
    repository = a_repository(layout, name, guid)
    with GrantStore(layout).transaction() as transaction:
        repositories.add(transaction, repository, "test")
    return repository

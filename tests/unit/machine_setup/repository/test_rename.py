"""A rename keeps identity, data and grants, and moves what is called after the name."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace

import pytest

from grants_cli.grants import Grant
from grants_cli.refs import Ref
from grants_cli.register import Repository
from grants_cli.store import GrantStore, read_grants, read_register
from machine_setup.repository import daemon, rename
from spec.errors import InvalidNameError, NotFoundError, RefusedError
from spec.layout import Layout
from spec.registry import read
from tests.unit.grants_cli.conftest import NOW, a_repository
from tests.unit.grants_cli.specs import NVIDIA, write_spec

GPU = "nvidia.com/gpu=0"


@pytest.fixture
def layout() -> Iterator[Layout]:
    """Below a short path, whoever runs the test: that of a unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gate-") as name:
        yield Layout.at(name)


@pytest.fixture
def managed(layout: Layout) -> Repository:
    write_spec(layout, "nvidia.com/gpu", NVIDIA)
    repository = replace(a_repository(layout, "gpu-a"), managed=True)
    repository.daemon_json.parent.mkdir(parents=True)
    config = {"authorization-plugins": ["mine", "rediacc-gpu-a"], "debug": True}
    repository.daemon_json.write_text(json.dumps(config))
    repository.data_root.mkdir(parents=True)
    layout.plugin_dir.mkdir(parents=True)
    layout.plugin_socket("gpu-a").touch()
    add(layout, repository)
    return repository


def add(layout: Layout, repository: Repository) -> None:
    grants = [Grant(GPU, False, NOW, "root")]
    with GrantStore(layout).transaction() as change:
        register = change.register.with_new(repository)
        change.commit("test", change.grants.replaced(repository.guid, grants), register)


def test_everything_of_a_stopped_repository_follows_its_name(layout: Layout, managed: Repository) -> None:
    renamed = rename.rename(layout, "gpu-a", Ref.parse("team-a:train"))
    assert read_register(layout).repositories == (renamed,)
    assert (renamed.guid, renamed.data_root) == (managed.guid, managed.data_root)
    assert renamed.socket == layout.docker_socket("team-a.train")
    assert json.loads(layout.daemon_json("team-a.train").read_text()) == {
        "authorization-plugins": ["mine", "rediacc-team-a.train"],
        "debug": True,
    }
    assert read_grants(layout).live(managed.guid, NOW) == {GPU}
    assert read([layout.view_dir("team-a.train")]).names() == (GPU,)
    for old in (managed.daemon_json, layout.view_dir("gpu-a"), layout.plugin_socket("gpu-a")):
        assert not old.exists()


def test_an_adopted_daemon_keeps_its_places(layout: Layout) -> None:
    adopted = a_repository(layout, "gpu-a")
    adopted.daemon_json.parent.mkdir(parents=True)
    adopted.daemon_json.write_text("{}")
    add(layout, adopted)
    renamed = rename.rename(layout, "gpu-a", Ref.parse("gpu-b"))
    assert renamed == replace(adopted, ref=Ref.parse("gpu-b"))
    assert adopted.daemon_json.read_text() == "{}"


def test_a_running_daemon_is_stopped_first(
    layout: Layout, managed: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "find", lambda _: 4711)
    with pytest.raises(RefusedError, match="the daemon of gpu-a runs"):
        rename.rename(layout, "gpu-a", Ref.parse("gpu-b"))
    assert read_register(layout).repositories == (managed,)


def test_a_name_that_is_taken_changes_nothing(layout: Layout, managed: Repository) -> None:
    other = a_repository(layout, "gpu-b")
    add(layout, other)
    with pytest.raises(RefusedError, match="the name gpu-b is taken"):
        rename.rename(layout, "gpu-a", Ref.parse("gpu-b"))
    assert read_register(layout).get("gpu-a") == managed
    assert managed.daemon_json.exists()
    assert not layout.daemon_json("gpu-b").exists()


def test_a_configuration_that_is_there_is_not_overwritten(layout: Layout, managed: Repository) -> None:
    layout.daemon_json("gpu-b").write_text("somebody's")
    with pytest.raises(RefusedError, match="is there already"):
        rename.rename(layout, "gpu-a", Ref.parse("gpu-b"))
    assert layout.daemon_json("gpu-b").read_text() == "somebody's"
    assert read_register(layout).get("gpu-a") == managed


def test_a_rename_to_the_same_name_changes_nothing(layout: Layout, managed: Repository) -> None:
    assert rename.rename(layout, "gpu-a", managed.ref) == managed
    assert managed.daemon_json.exists()


def test_what_cannot_be_renamed(layout: Layout, managed: Repository) -> None:
    with pytest.raises(NotFoundError):
        rename.rename(layout, "gpu-c", Ref.parse("gpu-b"))
    with pytest.raises(InvalidNameError):
        rename.rename(layout, "gpu-a", Ref.parse("a" * 63 + ":" + "b" * 63))

"""Copies of a repository's data: whole, its own, and quiet."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine_setup.repository import copy, fork
from spec.errors import CommandFailedError


@pytest.fixture
def original(tmp_path: Path) -> Path:
    home = tmp_path / "old"
    container = home / "docker/containers/c1"
    container.mkdir(parents=True)
    for name in ("network", "swarm", "image"):
        (home / "docker" / name).mkdir()
    (home / "docker/engine-id").write_text("one")
    (home / "docker/docker.pid").write_text("7")
    config = {
        "State": {"Running": True, "Paused": True, "Restarting": True, "Pid": 7, "ExitCode": 0},
        "HasBeenStartedBefore": True,
        "LogPath": f"{home}/docker/containers/c1/c1-json.log",
        "Elsewhere": f"{home}-other/x",
        "Args": ["sleep", "600"],
    }
    (container / "config.v2.json").write_text(json.dumps(config))
    host = {"Binds": [f"{home}/files/in:/in:ro", "/srv:/srv"], "RestartPolicy": {"Name": "always"}}
    (container / "hostconfig.json").write_text(json.dumps(host))
    (container / "hostconfig.json").chmod(0o600)
    return home


def loaded(path: Path) -> dict[str, object]:
    value = json.loads(path.read_text())
    assert isinstance(value, dict)
    return value


def test_a_fork_is_its_own_and_quiet(original: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    copy.copy_tree(original, new, lambda done, total: None)
    fork.make_own(original, new)
    container = new / "docker/containers/c1"
    config = loaded(container / "config.v2.json")
    assert config["State"] == {
        "Running": False,
        "Paused": False,
        "Restarting": False,
        "Pid": 0,
        "ExitCode": 0,
    }
    assert config["HasBeenStartedBefore"] is False
    assert config["LogPath"] == f"{new}/docker/containers/c1/c1-json.log"
    assert config["Elsewhere"] == f"{original}-other/x"
    host = loaded(container / "hostconfig.json")
    assert host["Binds"] == [f"{new}/files/in:/in:ro", "/srv:/srv"]
    assert host["RestartPolicy"] == {"Name": "always"}
    assert (container / "hostconfig.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (new / "docker").iterdir()) == ["containers", "image"]
    assert loaded(original / "docker/containers/c1/config.v2.json")["HasBeenStartedBefore"] is True


def test_a_container_that_cannot_be_read_is_not_carried_over_silently(original: Path) -> None:
    (original / "docker/containers/c1/config.v2.json").write_text("{")
    with pytest.raises(CommandFailedError, match=r"config.v2.json"):
        fork.make_own(original, original)


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A directory in memory: in a container all others are on an overlayfs, which takes no whiteout."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def test_a_copy_keeps_what_overlayfs_keeps_in_its_files(tmpfs: Path) -> None:
    source, target = tmpfs / "source", tmpfs / "target"
    source.mkdir()
    (source / "file").write_text("x")
    os.link(source / "file", source / "link")
    os.mkfifo(source / "fifo")
    (source / "dead").symlink_to("nowhere")
    if os.geteuid() == 0:
        os.mknod(source / "whiteout", 0o20600, os.makedev(0, 0))
        os.setxattr(source, "trusted.overlay.opaque", b"y")
        os.chown(source / "file", 1234, 1234)
    with (source / "holes").open("wb") as file:
        file.truncate(64 * 2**20)
    copy.copy_tree(source, target, lambda done, total: None)
    assert (target / "file").stat().st_ino == (target / "link").stat().st_ino
    assert (target / "dead").is_symlink()
    assert (target / "holes").stat().st_blocks == 0
    assert (target / "fifo").is_fifo()
    if os.geteuid() == 0:
        assert (target / "whiteout").stat().st_rdev == 0
        assert os.getxattr(target, "trusted.overlay.opaque") == b"y"
        assert (target / "file").stat().st_uid == 1234


def test_a_copy_that_does_not_fit_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError, match="No such file"):
        copy.copy_tree(tmp_path / "missing", tmp_path / "target", lambda done, total: None)


def test_progress_is_told_where_blocks_are_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "model").write_bytes(os.urandom(30 * 2**20))
    monkeypatch.setattr(copy, "_POLL", 0.002)
    monkeypatch.setattr(copy, "can_share_blocks", lambda directory: False)
    told: list[tuple[int, int]] = []
    assert not copy.copy_tree(source, tmp_path / "target", lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)
    assert told[-1][1] >= 30 * 2**20

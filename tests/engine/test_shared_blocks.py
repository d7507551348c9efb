"""Forks on a file system that shares blocks take neither time nor room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine_setup.repository import copy


@pytest.fixture
def btrfs(tmp_path: Path) -> Iterator[Path]:
    """A file system that shares blocks."""
    image, mount = tmp_path / "image", tmp_path / "mount"
    with image.open("wb") as file:
        file.truncate(256 * 2**20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    mount.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_blocks_are_shared_where_the_file_system_can(btrfs: Path, tmp_path: Path) -> None:
    source = btrfs / "source"
    source.mkdir()
    (source / "model").write_bytes(os.urandom(100 * 2**20))
    assert copy.copy_tree(source, btrfs / "target", lambda done, total: None)
    # 256 MiB hold two copies only if they are one.
    assert copy.copy_tree(source, btrfs / "third", lambda done, total: None)
    assert (btrfs / "third/model").read_bytes() == (source / "model").read_bytes()

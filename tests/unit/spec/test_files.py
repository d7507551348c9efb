"""Replacing files: a reader sees the old or the new content, and a failure leaves the old one alone."""

import os
from pathlib import Path

import pytest

from spec.files import CachedFile, replace_file


def test_the_content_and_mode_are_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "new/dir/file.json"
    replace_file(path, b"one", mode=0o600)
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o7777 == 0o600


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    replace_file(path, b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_cached_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    reads = []

    def read() -> str:
        reads.append(1)
        return path.read_text() if path.exists() else "absent"

    cached = CachedFile(path, read)
    assert cached.current() == "absent"
    replace_file(path, b"one")
    assert [cached.current(), cached.current()] == ["one", "one"]
    replace_file(path, b"two")
    assert cached.current() == "two"
    path.unlink()
    assert cached.current() == "absent"
    assert len(reads) == 4


def test_an_error_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("bad")
    answers: list[ValueError | str] = [ValueError("bad"), "good"]

    def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    cached = CachedFile(path, read)
    with pytest.raises(ValueError, match="bad"):
        cached.current()
    assert cached.current() == "good"

"""Directories are read by the reference library's rules, and read again only where they changed."""

import os
from pathlib import Path
from typing import Any

import pytest

from spec.errors import NotFoundError
from spec.registry import read
from tests.unit.spec.vectors import cases

CASES = cases("cdi-dirs.json")

# Stricter on purpose: version 1.1.0 of the library crashes on a vendor or class of one letter.
ONE_LETTER = {"one-letter-vendor": ("l/npu=s0", "a/short.yaml")}


def build(root: Path, directory: dict[str, Any]) -> None:
    """Make what a case describes."""
    path = root / directory.get("path", "")
    if "symlink" in directory:
        path.symlink_to(directory["symlink"])
        return
    if "file" in directory:
        path.write_text(directory["file"], encoding="utf-8")
        return
    path.mkdir(parents=True, exist_ok=True)
    for name, content in directory.get("files", {}).items():
        (path / name).write_text(content, encoding="utf-8")
    for name, target in directory.get("symlinks", {}).items():
        (path / name).symlink_to(target)
    for name, inner in directory.get("subdirs", {}).items():
        build(path, {**inner, "path": name})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_reference_librarys_verdict(case: dict[str, Any], tmp_path: Path) -> None:
    for directory in case["dirs"]:
        build(tmp_path, directory)
    expected = {name: tmp_path / path for name, path in case["from"].items()}
    load_errors = {tmp_path / path for path in case["load_errors"]}
    if case["id"] in ONE_LETTER:
        name, path = ONE_LETTER[case["id"]]
        del expected[name]
        load_errors.add(tmp_path / path)

    # Joined as text: pathlib would clean what the case wants to be unclean.
    registry = read([f"{tmp_path}/{directory}" for directory in case["priority"]])

    assert {name: injection.file.path for name, injection in registry.devices.items()} == expected
    assert registry.names() == tuple(sorted(expected))
    assert sorted(registry.conflicts) == case["conflicts"]
    conflicting = {problem.file for problem in registry.errors if problem.code == "conflict"}
    assert {problem.file for problem in registry.errors if problem.code != "conflict"} == load_errors
    assert load_errors | conflicting == {tmp_path / path for path in case["errors"]} | load_errors


SPEC = """\
cdiVersion: "0.5.0"
kind: acme.example/gpu
devices:
  - name: {name}
    containerEdits:
      deviceNodes: [{{path: /dev/acme{name}}}]
containerEdits:
  env: [ACME=1]
"""


def write(path: Path, name: str) -> None:
    """A spec that has been there for a while."""
    path.write_text(SPEC.format(name=name), encoding="utf-8")
    age(path)


def age(path: Path) -> None:
    """Give `path` times of an hour ago, all but the ctime."""
    now = path.stat().st_mtime
    os.utime(path, (now - 3600, now - 3600))


def test_a_name_brings_the_files_edits_and_then_its_own(tmp_path: Path) -> None:
    write(tmp_path / "acme.yaml", "a0")
    injection = read([tmp_path]).resolve("acme.example/gpu=a0")
    assert injection.common_edits.env == ("ACME=1",)
    assert [node.path for node in injection.device_edits.device_nodes] == ["/dev/acmea0"]
    assert injection.edits == injection.common_edits.then(injection.device_edits)
    assert injection.edits.env == ("ACME=1",)
    assert [node.source for node in injection.edits.device_nodes] == ["/dev/acmea0"]


def test_an_unknown_name_is_answered_with_the_near_misses(tmp_path: Path) -> None:
    write(tmp_path / "acme.yaml", "a0")
    with pytest.raises(
        NotFoundError, match=r"no spec on this machine defines acme\.example/gpu=a1"
    ) as caught:
        read([tmp_path]).resolve("acme.example/gpu=a1")
    assert "acme.example/gpu=a0" in caught.value.hint


def test_a_conflicting_name_is_answered_with_the_files(tmp_path: Path) -> None:
    write(tmp_path / "one.yaml", "a0")
    write(tmp_path / "two.yaml", "a0")
    with pytest.raises(NotFoundError, match="several spec files") as caught:
        read([tmp_path]).resolve("acme.example/gpu=a0")
    assert str(tmp_path / "one.yaml") in caught.value.hint
    assert str(tmp_path / "two.yaml") in caught.value.hint


def test_a_fifo_or_device_in_the_directory_is_an_error_and_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    write(tmp_path / "acme.yaml", "a0")
    registry = read([tmp_path])
    assert registry.names() == ("acme.example/gpu=a0",)
    assert {(problem.file, problem.found) for problem in registry.errors} == {
        (tmp_path / "pipe.yaml", "no regular file"),
        (tmp_path / "zero.json", "no regular file"),
    }


def test_a_subdirectory_is_passed_over_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").mkdir()
    write(tmp_path / "inner.yaml/acme.yaml", "a0")
    registry = read([tmp_path])
    assert (registry.names(), registry.errors) == ((), ())

"""Words arrive on the machine as they were given, whatever its login shell is."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grants_cli.remote.order import Order

SHOW = "import json, sys; json.dump(sys.argv[1:], sys.stdout)"
HOSTILE = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a'b",
    'a"b',
    "a\\",
    "\\'; touch pwned; '",
    "!!",
    "two\nlines",
    "tab\there",
    "*",
    "~root",
    "-rf",
    "--",
    "",
    "=ls",
    "ünï ✓",
    "nvidia.com/gpu=0 && touch pwned",
    "%s %n",
    "a\x01b\x7f",
]


@pytest.fixture(autouse=True, scope="module")
def sudo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Who is not root becomes it by this machine's sudo; here by one that gives way at once."""
    program = tmp_path_factory.mktemp("bin") / "sudo"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')  # after -n and --
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        yield


def arrives(line: str, shell: str, directory: Path) -> list[str]:
    """What a program is given that the login shell `shell` starts by `line`."""
    result = subprocess.run(
        [shell, "-c", line], cwd=directory, capture_output=True, text=True, timeout=30, check=True
    )
    return [str(word) for word in json.loads(result.stdout)]


@pytest.mark.parametrize(
    "shell", [path for path in map(shutil.which, ("sh", "bash", "zsh", "fish", "tcsh")) if path]
)
def test_hostile_words_arrive_unchanged(shell: str, tmp_path: Path) -> None:
    order = Order(tuple(HOSTILE), program=(sys.executable, "-c", SHOW))
    assert arrives(order.shell_line(), shell, tmp_path) == HOSTILE
    assert not list(tmp_path.iterdir())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=4))
def test_any_words_arrive_unchanged(tmp_path: Path, words: list[str]) -> None:
    order = Order(tuple(words), program=(sys.executable, "-c", SHOW))
    assert arrives(order.shell_line(), "sh", tmp_path) == words


def test_the_line_has_nothing_that_any_shell_expands() -> None:
    line = Order(tuple(HOSTILE)).shell_line()
    quoted = line.split("'")[1]
    assert not set(quoted) & set('\\!$`"\n')
    outside = line.replace(f"'{quoted}'", "")
    assert (
        outside.replace("=", "").replace("+", "").replace("/", "").replace(" ", "").replace("-", "").isalnum()
    )

"""The Debian mirror is read from the machine's own apt sources, in both of apt's formats."""

from pathlib import Path

import pytest

from tests.engine.mirror import Source, debian_source, read_sources
from tests.engine.refusal import Refusal

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

DEB822 = """\
# The machine's archive.
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm
 bookworm-updates
# a comment inside a stanza
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: sid
Components: main

Types: deb
URIs: http://other.example/tools
Suites: stable
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
"""

ONE_LINE = """\
# deb http://commented.example/debian sid main
deb-src http://source.example/debian trixie main
deb [arch=amd64 signed-by=/etc/apt/keyrings/own.gpg] http://mirror.example/debian/ trixie main non-free # ours
deb mirror+file:/etc/apt/mirrors/debian trixie main
"""


def apt_dir(directory: Path, name: str, text: str) -> Path:
    (directory / "sources.list.d").mkdir()
    (directory / name).write_text(text)
    return directory


def test_the_format_of_stanzas(tmp_path: Path) -> None:
    suites = ("bookworm", "bookworm-updates")
    assert list(read_sources(apt_dir(tmp_path, "sources.list.d/debian.sources", DEB822))) == [
        Source("http://mirror.example/debian", suites, ("main", "contrib"), KEYRING),
        Source("http://other.example/tools", ("stable",), ("main",), None),
    ]


@pytest.mark.parametrize("name", ["sources.list", "sources.list.d/debian.list"])
def test_the_format_of_lines(tmp_path: Path, name: str) -> None:
    own = Path("/etc/apt/keyrings/own.gpg")
    assert list(read_sources(apt_dir(tmp_path, name, ONE_LINE))) == [
        Source("http://mirror.example/debian/", ("trixie",), ("main", "non-free"), own),
        Source("mirror+file:/etc/apt/mirrors/debian", ("trixie",), ("main",), None),
    ]


def test_a_source_without_a_keyring_is_verified_by_the_machine_s_own(tmp_path: Path) -> None:
    keyring = tmp_path / "debian.gpg"
    keyring.touch()
    directory = apt_dir(tmp_path, "sources.list", "deb http://mirror.example/debian trixie main\n")
    assert debian_source(directory, (tmp_path / "none.gpg", keyring)).keyring == keyring
    with pytest.raises(Refusal, match="no keyring"):
        debian_source(directory, ())


def test_a_machine_without_a_debian_mirror_is_told_so(tmp_path: Path) -> None:
    line = "deb http://mirror.example/ubuntu noble main universe\n"
    with pytest.raises(Refusal, match="no Debian mirror"):
        debian_source(apt_dir(tmp_path, "sources.list", line))

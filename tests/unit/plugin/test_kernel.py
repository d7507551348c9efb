"""Where a path leads, at home and as a gate in a container sees it: the same, whatever links there are."""

import os
from pathlib import Path

import pytest

from plugin.context import Place, Unanswered
from plugin.kernel import place

NO_MOUNTS = Path(os.devnull)


def make(host: Path) -> None:
    """Directories a and a/b, a file, and links of every shape."""
    (host / "a/b").mkdir(parents=True)
    (host / "a/file").touch()
    for name, target in {
        "absolute": "/a/b",
        "relative": "a/b",
        "up": "../../../../a",
        "outside": "/../../etc/passwd",
        "chain": "/absolute",
        "a/b/back": "../../relative",
        "round": "/round",
        "gone": "/nowhere/at/all",
    }.items():
        (host / name).symlink_to(target)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("host")
    make(directory)
    return directory


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/", "/"),
        ("/absolute", "/a/b"),
        ("/relative/../file", "/a/file"),
        ("/up/file", "/a/file"),
        ("/outside", "/etc/passwd"),
        ("/chain/back/x", "/a/b/x"),
        ("/gone/further", "/nowhere/at/all/further"),
        ("/../../a//./b/", "/a/b"),
    ],
)
def test_links_are_followed_as_after_chroot(host: Path, path: str, real: str) -> None:
    assert place(path, str(host), NO_MOUNTS) == Place(real)


def test_below_a_file_there_is_nothing(host: Path) -> None:
    assert isinstance(place("/a/file/below", str(host), NO_MOUNTS), Unanswered)


def test_a_ring_of_links_has_no_answer(host: Path) -> None:
    assert isinstance(place("/round/x", str(host), NO_MOUNTS), Unanswered)


def test_the_kernels_mounts_are_named_as_the_daemons_see_them(tmp_path: Path) -> None:
    host = tmp_path / "host"
    make(host)
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(
        "".join(
            f"{number} 1 0:{number} / {point} rw - {kind} {kind} rw\n"
            for number, (point, kind) in enumerate(
                [
                    ("/proc", "proc"),
                    (f"{host}/a/b/proc", "proc"),
                    (f"{host}/srv", "ext4"),
                    (f"{host}-2", "proc"),
                ]
            )
        )
    )
    assert place("/up", str(host), mountinfo) == Place("/a", ("/a/b/proc",))
    assert place("/srv", str(host), mountinfo) == Place("/srv")

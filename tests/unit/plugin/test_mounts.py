"""What of the kernel and of hardware is found where a path leads."""

from pathlib import Path

import pytest

from plugin import kernel
from plugin.context import Place, Unanswered

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=1k
23 21 0:20 / /proc rw - proc proc rw
24 21 0:21 / /srv/jail\\040one/dev rw master:3 - devtmpfs devtmpfs rw
25 21 0:22 / /srv/data rw - ext4 /dev/sdb1 rw
26 21 0:23 / /home/proc-like rw - ext4 proc rw
"""


@pytest.fixture
def mountinfo(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS)
    return path


def test_links_are_followed_to_their_end(tmp_path: Path, mountinfo: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("/dev")
    found = kernel.place(f"{tmp_path}/one/null", "/", mountinfo)
    assert found == Place("/dev/null", ("/dev",), is_device=True)
    (tmp_path / "inside").mkdir()
    (tmp_path / "up").symlink_to(tmp_path / "inside")
    # ".." leaves where the link leads, as it does for mount(2).
    found = kernel.place(f"{tmp_path}/up/../one")
    assert isinstance(found, Place)
    assert found.path == "/dev"


def test_what_is_not_there_yet_leads_where_it_says(tmp_path: Path) -> None:
    found = kernel.place(f"{tmp_path}/new/deep")
    assert found == Place(f"{tmp_path}/new/deep")


def test_kernel_file_systems_are_seen_where_they_are_mounted(mountinfo: Path) -> None:
    def mounts(path: str) -> tuple[str, ...]:
        found = kernel.place(path, "/", mountinfo)
        assert isinstance(found, Place)
        return found.kernel_mounts

    assert mounts("/srv") == ("/srv/jail one/dev",)
    assert mounts("/srv/jail one/dev/pts") == ("/srv/jail one/dev",)
    assert mounts("/srv/data") == ()
    assert mounts("/home/proc-like") == ()
    assert mounts("/") == ("/dev", "/proc", "/srv/jail one/dev")


@pytest.mark.parametrize("path", ["/srv/a\0b", "/" + "a" * 5000])
def test_what_the_kernel_refuses_has_no_answer(path: str) -> None:
    assert isinstance(kernel.place(path), Unanswered)


def test_no_mounts_no_answer(tmp_path: Path) -> None:
    assert isinstance(kernel.place("/srv", "/", tmp_path / "missing"), Unanswered)

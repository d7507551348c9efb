"""Where a path leads, compared with the kernel's own answer after chroot(2), which needs root."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugin.context import Place, Unanswered
from plugin.kernel import place
from tests.unit.plugin.test_kernel import NO_MOUNTS, make


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("host")
    make(directory)
    return directory


NAMES = st.sampled_from(
    ["a", "b", "file", "absolute", "relative", "up", "outside", "chain", "back", "gone", "..", ".", "", "new"]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(NAMES, max_size=8))
def test_what_is_there_is_where_the_kernel_says_after_chroot(host: Path, parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    found = place(path, str(host), NO_MOUNTS)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot(host)
        os.write(writer, os.path.realpath(path).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as answer:
        real = answer.read().decode()
    if real.startswith("/a/file/"):
        assert isinstance(found, Unanswered)
    else:
        assert found == Place(real)


def test_a_device_is_told_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/node")
    os.mknod(tmp_path / "node", 0o20600, os.makedev(1, 3))
    assert place("/link", str(tmp_path), NO_MOUNTS) == Place("/node", is_device=True)
    assert place(str(tmp_path / "link"), mountinfo=NO_MOUNTS) == Place("/node")

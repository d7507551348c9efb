"""Replacing a file so that a reader sees the old one or the new one, and a crash loses neither."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Put `content` at `path` in one step that survives a crash.

    The content goes to a temporary file in the same directory, is fsynced and renamed over `path`, and
    the directory is fsynced. dockerd notices a CDI spec by that rename: it watches write, remove and
    rename, and a rename from another directory would not reach it.

    Missing directories are made (0755). Raises `OSError`; `path` is then as it was and nothing is left
    beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A leading dot and no known suffix: neither dockerd nor our reader takes it for a spec.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename or removal in the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Be the only one of our processes that writes in the directory `path`, which is made where missing.

    Waits for another. The lock is on the directory itself and ends with its holder, however that ends: who
    holds it knows that a temporary file of `replace_file` in there is nobody's any more.
    """
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class CachedFile(Generic[ValueT]):
    """What `read` makes of the file at `path`, read again only when the file has changed.

    A change is a new inode, size, modification or status-change time: `replace_file` always makes one. A
    file that cannot be read is not remembered: `current` raises what `read` raises until it can.
    """

    def __init__(self, path: Path, read: Callable[[], ValueT]) -> None:
        self._name = str(path)
        self._read = read
        #: How often reading it has failed.
        self.failures = 0
        self._known: tuple[tuple[int, ...] | None, ValueT] | None = None

    def current(self) -> ValueT:
        """The value of the file as it is now."""
        signature = self._signature()
        if self._known is None or self._known[0] != signature:
            # The signature is taken before the content: a change in between is seen the next time.
            try:
                self._known = (signature, self._read())
            except BaseException:
                self.failures += 1
                raise
        return self._known[1]

    def _signature(self) -> tuple[int, ...] | None:
        try:
            stat = os.stat(self._name)  # noqa: PTH116 - half the cost of Path.stat, for each request
        except FileNotFoundError:
            return None
        return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)

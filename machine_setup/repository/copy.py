"""Copying a repository's files: shared blocks where the file system can, else byte by byte.

GNU cp does the work: it keeps owners, modes, times, hard links, holes, extended attributes (overlayfs keeps
its opaque directories there) and device nodes (its whiteouts).
"""

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spec.errors import CommandFailedError

#: ioctl_ficlone(2)
_FICLONE = 0x40049409
_POLL = 0.2

Progress = Callable[[int, int], None]


def can_share_blocks(directory: Path) -> bool:
    """Whether a file in `directory` can be a reflink of another (btrfs, XFS, bcachefs)."""
    with tempfile.NamedTemporaryFile(dir=directory) as one, tempfile.NamedTemporaryFile(dir=directory) as two:
        one.write(b"x" * 4096)
        one.flush()
        try:
            fcntl.ioctl(two.fileno(), _FICLONE, one.fileno())
        except OSError:
            return False
        return True


def copy_tree(source: Path, target: Path, progress: Progress) -> bool:
    """Copy the directory `source` to the new directory `target`; whether blocks are shared.

    Without shared blocks `progress` is called now and then with the bytes on disk so far and in all. Raises
    `CommandFailedError` with cp's words; `target` may be there in part.
    """
    shares = can_share_blocks(source.parent)
    how = "always" if shares else "auto"
    command = ["cp", "--archive", f"--reflink={how}", "--sparse=auto", "--no-target-directory", "--"]
    total = 0 if shares else _bytes_in(source)
    child = subprocess.Popen([*command, str(source), str(target)], stderr=subprocess.PIPE, text=True)
    try:
        while not shares and _runs(child):
            progress(min(_bytes_in(target), total), total)
        _, errors = child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if child.returncode:
        raise CommandFailedError(
            f"copying {source} failed: {errors.strip()}", "make room on its file system, then repeat"
        )
    return shares


def _runs(child: subprocess.Popen[str]) -> bool:
    time.sleep(_POLL)
    return child.poll() is None


def _bytes_in(directory: Path) -> int:
    """The bytes that the files below `directory` take on disk: each file once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    pending = [directory]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if (state.st_dev, state.st_ino) not in seen:
                seen.add((state.st_dev, state.st_ino))
                total += state.st_blocks * 512
    return total

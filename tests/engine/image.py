"""The image that tests run: a statically linked busybox with all its applets, made on the spot."""

import io
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

from tests.engine.refusal import Refusal

IMAGE = "busybox"

# Opens a device node as a program would; a kernel log needs a privilege for reading, but none for writing.
# The size check keeps a missing node from being created as a file.
OPEN_DEVICE = """\
#!/bin/sh
[ -c "$1" ] || { echo "open-device: $1 is no device node" >&2; exit 1; }
if (: <"$1") 2>/dev/null || (: >>"$1"); then echo "opened $1"; else exit 1; fi
"""


@cache
def image_archive() -> bytes:
    """The image's root as a tar archive, for ``docker import``; ``open-device NODE`` is among its programs.

    Raises `Refusal` where the machine has no statically linked busybox.
    """
    busybox = shutil.which("busybox", path="/bin:/usr/bin:/sbin:/usr/sbin")
    if busybox is None or b"/ld-linux" in Path(busybox).read_bytes()[:4096]:
        raise Refusal("no statically linked busybox is installed: apt-get install busybox-static")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
            _add(archive, tarfile.TarInfo(name), tarfile.DIRTYPE)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.linkname = "busybox"
                _add(archive, link, tarfile.SYMTYPE)
        _add(archive, tarfile.TarInfo("bin/busybox"), content=Path(busybox).read_bytes())
        _add(archive, tarfile.TarInfo("bin/open-device"), content=OPEN_DEVICE.encode())
        _add(archive, tarfile.TarInfo("etc/passwd"), content=b"root:x:0:0:root:/root:/bin/sh\n")
    return buffer.getvalue()


def _add(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, kind: bytes = tarfile.REGTYPE, content: bytes = b""
) -> None:
    entry.type, entry.mode, entry.size = kind, 0o755, len(content)
    archive.addfile(entry, io.BytesIO(content))

"""The lab machine's image, from the cache or newly built.

As a command it builds ahead and prints the image's directory: ``python3 -m tests.lab.image [trixie|sid]``.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.engine.refusal import Refusal
from tests.engine.unpack import cache_dir, locked
from tests.lab.build import build, dependencies

SUITES = ("trixie", "sid")
SUITE_VARIABLE = "REDIACC_LAB_SUITE"
RECIPE = Path(__file__).with_name("build.py")


@dataclass(frozen=True)
class Image:
    """A built image: its directory holds the disk, kernel, initial RAM disk, SSH key and host key."""

    directory: Path

    @property
    def disk(self) -> Path:
        """The raw disk, never written once it is built."""
        return self.directory / "disk.img"

    @property
    def kernel(self) -> Path:
        """The kernel that boots it."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The kernel's initial RAM disk."""
        return self.directory / "initrd"

    @property
    def key(self) -> Path:
        """The private key that opens it, for root and for admin, who may use sudo."""
        return self.directory / "id"

    def frozen(self, qemu: str) -> Path:
        """Where the state of a machine that has just come up is kept, for the QEMU of version `qemu`."""
        return self.directory / f"up-{hashlib.sha256(qemu.encode()).hexdigest()[:12]}.qcow2"

    @property
    def host_key(self) -> str:
        """Its SSH host key, as a known_hosts line takes it."""
        return (self.directory / "host_key.pub").read_text().strip()


def image(suite: str | None = None, say: Callable[[str], None] = lambda _: None) -> Image:
    """The image of a Debian `suite` (``REDIACC_LAB_SUITE``, else trixie), from the cache or newly built.

    Raises `Refusal` where it cannot be built.
    """
    suite = suite or os.environ.get(SUITE_VARIABLE) or SUITES[0]
    if suite not in SUITES:
        raise Refusal(f"there is no lab machine {suite}: {SUITE_VARIABLE} may be {' or '.join(SUITES)}")
    made_of = [RECIPE.read_text(), suite, *dependencies()]
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:12]
    target = cache_dir() / f"lab-{suite}-{key}"
    with locked(target.with_suffix(".lock")):
        if not target.exists():
            _remove_unused(suite)
            say(f"building the lab machine (Debian {suite}) in {target} …")
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="build-") as scratch:
                build(suite, Path(scratch)).rename(target)
        target.touch()
    return Image(target)


def _remove_unused(suite: str) -> None:
    """Images nobody has booted for a week: each takes about a gigabyte."""
    for old in cache_dir().glob(f"lab-{suite}-*"):
        if old.is_dir() and old.stat().st_mtime < time.time() - 7 * 86400:
            shutil.rmtree(old)


def main() -> int:
    """Builds ahead; the exit status is 1 where that is not possible."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.lab.image", description="Build the lab machine's disk."
    )
    parser.add_argument(
        "suite", nargs="?", choices=SUITES, help=f"default: {SUITE_VARIABLE}, else {SUITES[0]}"
    )
    try:
        built = image(parser.parse_args().suite, lambda line: print(line, file=sys.stderr, flush=True))
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    print(built.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

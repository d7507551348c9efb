"""Builds the Debian package with Debian's own tools, in a root of its own that the cache keeps."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.engine.mirror import debian_source
from tests.engine.unpack import cache_dir, locked
from tests.lab.build import PROJECT

SUITE = "trixie"
UNWANTED = shutil.ignore_patterns(
    ".git", ".venv", ".cache", "*_cache", "__pycache__", ".hypothesis", "build", "dist"
)
_APT = "apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0"


class Builder:
    """A Debian root in which the package is built, checked, and its dependencies are fetched."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src/package"

    def run(self, command: str) -> str:
        """What a shell command in the root prints; raises `CalledProcessError` with it where it fails."""
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                "chroot",
                str(self.root),
                "sh",
                "-euc",
                f"mount -t proc proc /proc; {command}",
            ],
            check=False,
            capture_output=True,
            text=True,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C.UTF-8",
            },
        )
        if done.returncode != 0:
            raise AssertionError(
                f"{command}: status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )
        return done.stdout

    def build(self) -> Path:
        """The package of this checkout."""
        shutil.rmtree(self.root / "src", ignore_errors=True)
        shutil.copytree(PROJECT, self.source, ignore=UNWANTED)
        # Nothing to do but for a new build dependency.
        self.run(f"{_APT} --yes build-dep /src/package; cd /src/package; dpkg-buildpackage -us -uc -b")
        (package,) = (self.root / "src").glob("*.deb")
        return package

    def lint(self) -> str:
        """What lintian finds beyond information."""
        return self.run("lintian --allow-root --fail-on none /src/*.changes")

    def dependencies(self, status: str) -> Path:
        """The packages that ours needs beyond `status`, which is a machine's /var/lib/dpkg/status."""
        debs = self.root / "src/debs"
        (debs / "partial").mkdir(parents=True)
        (self.root / "src/status").write_text(status)
        options = "-o Dir::State::status=/src/status -o Dir::Cache::archives=/src/debs"
        self.run(f"{_APT} {options} --yes --no-install-recommends --download-only install /src/*.deb")
        shutil.rmtree(debs / "partial")
        (debs / "lock").unlink(missing_ok=True)
        return debs


def builder() -> Builder:
    """The builder's root, made where the cache lacks it (some minutes)."""
    root = cache_dir() / f"package-builder-{SUITE}"
    with locked(root.with_suffix(".lock")):
        if not root.exists():
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="build-") as scratch:
                made = Path(scratch) / "root"
                subprocess.run(
                    [
                        "unshare",
                        "--mount",
                        "debootstrap",
                        "--variant=buildd",
                        SUITE,
                        str(made),
                        debian_source().uri,
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                sources = (made / "etc/apt/sources.list").read_text()
                if SUITE not in sources:
                    (made / "etc/apt/sources.list").write_text(f"deb {debian_source().uri} {SUITE} main\n")
                Builder(made).run(f"{_APT} update; {_APT} --yes --no-install-recommends install lintian")
                made.rename(root)
    return Builder(root)

"""This very version as a wheel, for a machine that has nothing yet."""

import base64
import hashlib
import importlib.util
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spec.errors import CommandFailedError

DISTRIBUTION = "rediacc-gpu-gate"
# Records of this installation, which the next one makes for itself.
_LOCAL_RECORDS = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


@dataclass(frozen=True)
class Release:
    """A wheel of ours. `name` tells two builds of one version apart by their content."""

    wheel: Path
    name: str


def own_release(directory: Path) -> Release:
    """Write this version's wheel into `directory`: packed as it was installed, or built from the source tree.

    Raises `CommandFailedError` when it cannot be built.
    """
    source = Path(__file__).resolve().parents[2]
    installed = _installed(DISTRIBUTION, "grants_cli/remote/wheels.py")
    wheel = repack(installed, directory) if installed else _build(source, directory)
    return Release(wheel, f"{wheel.name.split('-')[1]}-{_digest(wheel)}")


def pip_wheel(directory: Path) -> Path:
    """Write a wheel of pip into `directory`: many a Python has none. Raises `CommandFailedError`."""
    installed = _installed("pip", "pip/__init__.py")
    if installed:
        return repack(installed, directory)
    # PEP 453: Python itself carries one, but distributions may take it out, and say where they have put it.
    spec = importlib.util.find_spec("ensurepip")
    bundled = Path(spec.origin).parent / "_bundled" if spec and spec.origin else directory
    for place in (bundled, Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or bundled)):
        for wheel in sorted(place.glob("pip-*.whl")):
            return wheel
    raise CommandFailedError(
        "there is no pip in this installation to send along", f"{sys.executable} -m ensurepip"
    )


def _installed(name: str, file: str) -> metadata.Distribution | None:
    """The distribution `name`, where its own list of files has `file`: an editable one has not."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    files = {str(path) for path in distribution.files or ()}
    return distribution if file in files else None


def repack(distribution: metadata.Distribution, directory: Path) -> Path:
    """Write the wheel that `distribution` was installed from into `directory`, by its list of files."""
    tag = next(
        line.partition(":")[2].strip()
        for line in (distribution.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag:")
    )
    name = distribution.metadata["Name"].replace("-", "_")
    wheel = directory / f"{name}-{distribution.version}-{tag}.whl"
    record = []
    info = ""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(distribution.files or (), key=str):
            outside = path.parts[0] == ".." or path.is_absolute()  # scripts, which entry points make anew
            if outside or path.suffix == ".pyc" or path.name in _LOCAL_RECORDS:
                continue
            if path.parts[0].endswith(".dist-info"):
                info = path.parts[0]
            content = path.read_binary()
            archive.writestr(str(path), content)
            record.append(_record_line(str(path), content))
        archive.writestr(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]))
    return wheel


def _record_line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _build(source: Path, directory: Path) -> Path:
    if not (source / "pyproject.toml").exists():
        raise CommandFailedError(f"{source} is neither installed nor a source tree", "install rdc with pip")
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        *isolation,
        "--wheel-dir",
        str(directory),
        str(source),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    for wheel in directory.glob(f"{DISTRIBUTION.replace('-', '_')}-*.whl"):
        return wheel
    said = [line.strip() for line in result.stderr.splitlines() if "rror" in line]
    tail = said[-1] if said else f"pip ended with status {result.returncode}"
    raise CommandFailedError(f"the wheel of {source} could not be built: {tail}", "pip install hatchling")


def _digest(wheel: Path) -> str:
    """Eight digits that stand for the content of `wheel`, whenever and wherever it was packed."""
    with zipfile.ZipFile(wheel) as archive:
        names: Iterable[str] = sorted(name for name in archive.namelist() if not name.endswith("/RECORD"))
        lines = [_record_line(name, archive.read(name)) for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:8]

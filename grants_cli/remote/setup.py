"""Bringing `renet` to a machine: this very version, with its dependencies, in one upload."""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from grants_cli.remote import renet
from grants_cli.remote.machines import Machine
from grants_cli.remote.order import Order
from grants_cli.remote.renet import Call
from grants_cli.remote.transport import carry
from grants_cli.remote.wheels import own_release, pip_wheel
from spec.errors import NotFoundError

# The installer's own text comes first on stdin, so that sudo's log stays readable.
_START = "import sys; exec(sys.stdin.buffer.read(int(sys.argv[1])))"


@dataclass(frozen=True)
class Package:
    """What is uploaded: a release's name, and a tar archive of its wheel, pip's and the wheelhouse."""

    release: str
    archive: bytes


@dataclass(frozen=True)
class Options:
    """What `renet setup` is told."""

    toolkit: str = "auto"
    dry_run: bool = False

    def words(self) -> tuple[str, ...]:
        """The options as `renet setup` takes them."""
        return (f"--install-nvidia-toolkit={self.toolkit}", *(("--dry-run",) if self.dry_run else ()))


def package(wheelhouse: Path | None) -> Package:
    """This version, ready for any number of machines; raises `CommandFailedError`, `NotFoundError`."""
    with TemporaryDirectory(prefix="rdc-") as name:
        directory = Path(name)
        release = own_release(directory)
        content = {"dist": [release.wheel], "pip": [pip_wheel(directory)]}
        if wheelhouse:
            content["wheelhouse"] = sorted(wheelhouse.glob("*.whl"))
            if not content["wheelhouse"]:
                raise NotFoundError(
                    f"{wheelhouse} holds no wheels", "fill it: pip download --dest DIR, see docs/rdc.md"
                )
        return Package(release.name, _archive(content))


def _archive(content: Mapping[str, Sequence[Path]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for directory, files in content.items():
            for file in files:
                archive.add(file, f"{directory}/{file.name}", recursive=False)
    return buffer.getvalue()


def set_up(
    machine: Machine, what: Package, options: Options, timeout: float | None, tell: Callable[[str], None]
) -> dict[str, object]:
    """Install `what` on `machine` unless it is there, then run ``renet setup``; `tell` hears the progress.

    A dry run changes nothing: it says what is installed, and what ``renet setup`` would do where it is.
    Raises what `renet.ask` raises.
    """
    found = _installer(machine, "probe", what.release, timeout=timeout, tell=tell)
    data: dict[str, object] = {"release": what.release, "previous": found["current"]}
    if options.dry_run:
        state = (
            "is installed already" if found["current"] == what.release else "would be uploaded and installed"
        )
        tell(f"{what.release} {state} ({len(what.archive) >> 10} KiB)")
        if not found["current"]:
            return data
    elif found["current"] != what.release or not found["complete"]:
        tell(f"uploading {what.release} ({len(what.archive) >> 10} KiB)")
        data |= _installer(machine, "install", what.release, what.archive, timeout=timeout, tell=tell)
    call = Call(
        ("setup",),
        options.words(),
        changes=not options.dry_run,
        find_out=f"rdc machine setup {machine} again",
    )
    data["setup"] = renet.ask(machine, call, timeout, tell, program=INSTALLED)
    return data


#: The `renet` that was installed, on the machine `local` too, where `rdc` itself may run from elsewhere.
INSTALLED = ("/usr/local/bin/renet",)


def _installer(
    machine: Machine,
    mode: str,
    release: str,
    archive: bytes = b"",
    *,
    timeout: float | None,
    tell: Callable[[str], None],
) -> dict[str, object]:
    text = resources.files("grants_cli.remote").joinpath("installer.py").read_bytes()
    order = Order(
        ("-I", "-c", _START, str(len(text)), mode, release),
        program="python",
        changes=mode != "probe",
        find_out=f"rdc machine setup {machine} again: it goes on from what is there",
    )
    answer = renet.data(machine, carry(machine, order, text + archive, timeout, tell))
    return dict(answer) if isinstance(answer, dict) else {}

"""The files of ``deploy/`` that set-up and ``renet repo`` install: units, rules and examples."""

import sys
from importlib.resources import files
from pathlib import Path

from machine_setup.programs import Programs

#: The `renet` of the version in use, where `rdc` installed it (see `grants_cli.remote.installer`).
CURRENT = Path("/opt/rediacc/current/bin/renet")


def deployed_file(name: str) -> bytes:
    """The content of ``deploy/NAME``, from the installed package or, in a checkout, from beside it.

    Raises `FileNotFoundError` for a name that does not exist.
    """
    packaged = files("machine_setup").joinpath("deploy", *name.split("/"))
    if packaged.is_file():
        return packaged.read_bytes()
    return Path(__file__).parent.parent.joinpath("deploy", name).read_bytes()


def is_packaged(path: Path, content: bytes) -> bool:
    """Whether a distribution's package has brought `content`, which would go to `path` below an ``etc``.

    Such a file is the package's to keep: systemd and udev read it from below ``usr/lib``.
    """
    before, _, after = str(path).rpartition("/etc/")
    packaged = Path(f"{before}/usr/lib", after)
    return not path.exists() and packaged.is_file() and packaged.read_bytes() == content


def renet_command(programs: Programs) -> str:
    """How a unit starts this installation's ``renet``: services know nothing of an operator's PATH."""
    beside = Path(sys.executable).with_name("renet")
    # `rdc machine setup` installs each version beside the others: a unit must start the one in use.
    if beside.exists() and CURRENT.exists() and CURRENT.samefile(beside):
        return str(CURRENT)
    found = beside if beside.exists() else programs.find("renet")
    return str(found) if found else f"{sys.executable} -m machine_setup.renet"


def with_renet(unit: bytes, programs: Programs) -> bytes:
    """The unit file `unit`, whose commands are written ``renet …``, with this installation's renet in it."""
    command = renet_command(programs).encode()
    lines = [
        line.replace(b"renet ", command + b" ", 1) if line.startswith(b"Exec") and b"renet " in line else line
        for line in unit.splitlines(keepends=True)
    ]
    return b"".join(lines)

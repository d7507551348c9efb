"""The machines an operator works with: ``~/.config/rediacc/rediacc.json``, readable by its owner alone."""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from grants_cli.refs import Ref
from spec.errors import BusyError, InvalidNameError, NotFoundError, UntrustedError
from spec.files import replace_file
from spec.layout import Layout

#: The machine that `rdc` itself runs on.
LOCAL = "local"
#: How long a command waits for another that changes the file.
LOCK_SECONDS = 5.0


@dataclass(frozen=True, order=True)
class Machine:
    """A machine by the name that its operator gave it, and where OpenSSH finds it."""

    name: str
    host: str = ""
    user: str = ""
    port: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether the machine is this one, reached without SSH."""
        return self.name == LOCAL

    @property
    def destination(self) -> str:
        """The machine as ``ssh`` takes it: ``[user@]host``."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def __str__(self) -> str:
        return self.name


def check_name(text: str) -> str:
    """`text` where it can name a machine; raises `InvalidNameError`. The grammar is a label's."""
    if ":" in text:
        raise InvalidNameError(
            f"{text!r} is not a machine name: ':' at position {text.index(':') + 1}",
            "a tag goes before the machine: name:tag@machine",
        )
    Ref.parse(text)
    return text


def machine(name: str, host: str, port: int | None) -> Machine:
    """The machine `name` at `host` (``[user@]host``); raises `InvalidNameError`."""
    check_name(name)
    if name == LOCAL:
        raise InvalidNameError("'local' is this machine itself and needs no address", "choose another name")
    user, at, address = host.rpartition("@")
    # A leading hyphen would be an option to ssh, or to a program that the user's ProxyCommand gives it to.
    for what, text in (("host", address), ("user", user)):
        wrong = next((c for c in text if not c.isprintable() or c.isspace() or c in "'\"`$\\;&|<>(){}"), "")
        if wrong or text.startswith("-"):
            raise InvalidNameError(
                f"{host!r} is not an address: the {what} has {(wrong or '-')!r}", "use --host [user@]host"
            )
    if not address or (at and not user):
        raise InvalidNameError(f"{host!r} is not an address", "use --host [user@]host")
    return Machine(name, address, user, port)


@dataclass(frozen=True)
class Machines:
    """The machines of one operator, by name."""

    by_name: Mapping[str, Machine] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, name: str) -> Machine:
        """The machine `name`; raises `InvalidNameError`, or `NotFoundError` with the near misses."""
        check_name(name)
        if name == LOCAL:
            return Machine(LOCAL)
        if name in self.by_name:
            return self.by_name[name]
        near = get_close_matches(name, [*self.by_name, LOCAL], n=3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"add it: rdc machine add {name} --host [user@]host"
        )
        raise NotFoundError(f"there is no machine {name}", hint)

    def all(self) -> tuple[Machine, ...]:
        """Every machine: those added, and this one where it has been set up or is the only one there is."""
        ours = Layout.from_environment()
        local = (
            (Machine(LOCAL),) if not self.by_name or ours.inventory.exists() or ours.register.exists() else ()
        )
        return (*local, *(self.by_name[name] for name in sorted(self.by_name)))

    def with_machine(self, new: Machine) -> "Machines":
        """These machines and `new`, which takes the place of one with its name."""
        return Machines(MappingProxyType({**self.by_name, new.name: new}))

    def without(self, name: str) -> "Machines":
        """These machines without the one called `name`."""
        return Machines(MappingProxyType({key: value for key, value in self.by_name.items() if key != name}))


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the machines are kept, by the XDG base directory specification."""
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(base) / "rediacc/rediacc.json"


def read(path: Path | None = None) -> Machines:
    """The machines in the file at `path`; none without a file.

    Raises `UntrustedError` for a file that others can write (it says where we log in and call sudo), or
    that is not of the form that `write` gives it. Parsed by hand: a JSON schema's validator costs half of
    what completion may take.
    """
    path = path or config_path()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Machines()
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        content = file.read()
    if status.st_uid not in {os.geteuid(), 0} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedError(f"{path} can be written by others", f"check it, then: chmod 600 {path}")
    try:
        return _decode(content)
    except (ValueError, KeyError, TypeError, InvalidNameError) as error:
        raise UntrustedError(
            f"{path} is not what rdc wrote: {error}", "correct it, or move it away and add the machines again"
        ) from None


def _decode(content: bytes) -> Machines:
    document = json.loads(content.decode())
    if document["version"] != 1:
        raise ValueError(f"version {document['version']!r} is not 1")
    machines = {}
    for name, entry in document["machines"].items():
        port = entry.get("port")
        if not (port is None or (type(port) is int and 0 < port < 65536)):
            raise ValueError(f"machine {name} has the port {port!r}")
        if not isinstance(entry["host"], str):
            raise TypeError(f"machine {name} has the host {entry['host']!r}")
        machines[name] = machine(name, entry["host"], port)
    return Machines(MappingProxyType(machines))


def write(machines: Machines, path: Path | None = None) -> None:
    """Keep `machines` at `path`, for the owner's eyes alone."""
    path = path or config_path()
    entries = {
        name: {"host": one.destination, **({"port": one.port} if one.port else {})}
        for name, one in sorted(machines.by_name.items())
    }
    document = {"version": 1, "machines": entries}
    replace_file(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)


@contextmanager
def lock(path: Path | None = None) -> Iterator[None]:
    """Keep others from changing the file at `path`; raises `BusyError` when one does for `LOCK_SECONDS`."""
    import portalocker  # only the commands that change the file need it

    path = path or config_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with portalocker.Lock(path.with_suffix(".lock"), "a", timeout=LOCK_SECONDS):
            yield
    except portalocker.LockException:
        raise BusyError(f"another rdc is changing {path}", "try again in a moment") from None

"""The command line of an adopted daemon: what on it leaves open, or denies, what daemon.json says.

dockerd does not start when an option is on its command line and in its file, and its plugins are forgotten
at the next SIGHUP when they are named on the command line alone. So such options are taken from the unit that
starts the daemon: by a drop-in, which its owner may remove again.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from machine_setup.repository import flags
from machine_setup.repository.daemon_json import RUNC, is_open_host

#: Options of the file whose flag has another name (moby cmd/dockerd, config.go).
_FLAG_OF: Mapping[str, str] = MappingProxyType(
    {
        "authorization-plugins": "authorization-plugin",
        "cdi-spec-dirs": "cdi-spec-dir",
        "features": "feature",
        "hosts": "host",
        "runtimes": "add-runtime",
    }
)

IsUnwanted = Callable[[str, str], bool]


def unwanted(fixed: Mapping[str, object]) -> IsUnwanted:
    """Whether a flag (its long name and value) must go when the daemon's file is `fixed`."""
    named = {_FLAG_OF.get(key, key) for key in fixed}

    def is_unwanted(name: str, value: str) -> bool:
        return name in named or leaves_open(name, value)

    return is_unwanted


def leaves_open(name: str, value: str) -> bool:
    """Whether the flag lets something past the gate, or makes every grant vain."""
    match name:
        case "host":
            return is_open_host(value)
        case "default-runtime":
            return value not in RUNC
        case "experimental":
            return value != "false"
        case "nri-opts":
            return "enable" in value and "false" not in value
        case _:
            return name == "add-runtime" or (name, value) == ("feature", "cdi=false")


def spelled(name: str, value: str) -> str:
    """The flag as a person types it."""
    return f"--{name}={value}"


def drop_in(about: str, program: Path, arguments: Sequence[str], is_unwanted: IsUnwanted) -> str:
    """A drop-in for the unit of the daemon that runs as `program` with `arguments`, the first its name.

    `about` says in one line who wrote it and why.
    """
    kept = flags.without(arguments, is_unwanted)[1:]
    command = " ".join(map(_quoted, [str(program), *kept]))
    return f"# {about}\n[Service]\nExecStart=\nExecStart={command}\n"


def _quoted(word: str) -> str:
    """`word` as systemd reads it back (systemd.service(5), command lines)."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not any(letter in plain for letter in " \t\n\"'\\;"):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

"""dockerd's command line: the options that it was started with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

#: Flags without a value, as far as we must know them to read what follows (dockerd --help).
_SWITCHES = frozenset({
    "debug", "experimental", "icc", "init", "ip-forward", "ip-masq", "ip6tables", "iptables", "ipv6",
    "live-restore", "no-new-privileges", "raw-logs", "rootless", "selinux-enabled", "tls", "tlsverify",
    "userland-proxy", "validate", "allow-direct-routing", "bridge-accept-fwmark"
})  # fmt: skip
_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "H": "host",
        "D": "debug",
        "g": "data-root",
        "G": "group",
        "l": "log-level",
        "p": "pidfile",
        "b": "bridge",
    }
)

Flags = Mapping[str, tuple[str, ...]]


def parse(arguments: Sequence[str]) -> Flags:
    """The options of a command line, by their long names; a switch has the value ``true``."""
    found: dict[str, tuple[str, ...]] = {}
    for option, _ in _options(arguments):
        if option:
            name, value = option
            found[name] = (*found.get(name, ()), value)
    return found


def without(arguments: Sequence[str], is_unwanted: Callable[[str, str], bool]) -> list[str]:
    """The command line without the options for whose long name and value `is_unwanted` is true."""
    kept = list(arguments[:1])
    for option, words in _options(arguments):
        if option is None or not is_unwanted(*option):
            kept += words
    return kept


def _options(arguments: Sequence[str]) -> Iterator[tuple[tuple[str, str] | None, list[str]]]:
    """Each option's long name and value, None for what is no option; and the words that say it."""
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            yield None, [word]
            continue
        said = [word]
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--") and name[:1] in _SHORT and len(name) > 1 and name not in _SWITCHES:
            name, value, equals = name[:1], name[1:] + equals + value, "="
        name = _SHORT.get(name, name)
        if not equals and name in _SWITCHES:
            value = "true"
        elif not equals:
            said += (following := list(islice(words, 1)))
            value = "".join(following)
        yield (name, value), said


def features(flags: Flags) -> dict[str, bool]:
    """What ``--feature NAME=true|false`` says."""
    pairs = (value.partition("=") for value in flags.get("feature", ()))
    return {name: value != "false" for name, _, value in pairs}


def last(flags: Flags, name: str) -> str | None:
    """The value of the option `name`, the last one given; `None` when it was not."""
    values = flags.get(name)
    return values[-1] if values else None

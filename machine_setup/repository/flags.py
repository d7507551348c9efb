"""dockerd's command line: the options that it was started with."""

from collections.abc import Mapping, Sequence
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
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--") and name[:1] in _SHORT and len(name) > 1 and name not in _SWITCHES:
            name, value, equals = name[:1], name[1:] + equals + value, "="
        name = _SHORT.get(name, name)
        if not equals:
            value = "true" if name in _SWITCHES else next(words, "")
        found[name] = (*found.get(name, ()), value)
    return found


def last(flags: Flags, name: str) -> str | None:
    """The value of the option `name`, the last one given; `None` when it was not."""
    values = flags.get(name)
    return values[-1] if values else None

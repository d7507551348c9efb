"""A repository's network: a bridge of its own, and NAT in an nftables table of its own.

dockerd is told to leave the firewall alone (``iptables: false``), because two daemons that manage one
machine's iptables chains undo each other's rules. What it would have done is here instead, in a table that
names this repository's addresses only:

* what leaves for elsewhere is masqueraded;
* nothing is forwarded into the repository but answers: neither the network nor another repository reaches
  a container, except through a port that the container publishes, which docker-proxy serves from the host;
* an address of the repository counts only where the repository's own bridges are.
"""

import ipaddress
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import chain
from pathlib import Path

from spec.errors import CommandFailedError, RefusedError

#: Where repositories' subnets are taken from, in this order, unless the operator names one (RFC 1918).
POOLS = (IPv4Network("10.128.0.0/9"), IPv4Network("172.16.0.0/12"), IPv4Network("192.168.0.0/16"))
PREFIX = 18
#: Each network that a tenant makes gets this many bits: 62 hosts, and 128 networks in a repository.
NETWORK_PREFIX = 26


@dataclass(frozen=True)
class Network:
    """The bridge and the addresses of one repository."""

    bridge: str
    subnet: IPv4Network

    @property
    def table(self) -> str:
        """The name of the repository's nftables table."""
        return f"rediacc-{self.bridge.removeprefix('rd-')}"

    @property
    def bridge_subnet(self) -> IPv4Network:
        """The addresses of the daemon's default network: the first /24 (all, in a smaller subnet's half)."""
        half = next(self.subnet.subnets())
        return next(half.subnets(new_prefix=24)) if half.prefixlen < 24 else half

    @property
    def gateway(self) -> str:
        """The bridge's own address, with its prefix length."""
        return f"{self.bridge_subnet[1]}/{self.bridge_subnet.prefixlen}"

    @property
    def tenant_pool(self) -> IPv4Network:
        """The addresses of the networks that the tenant makes: the upper half."""
        return list(self.subnet.subnets())[1]

    def ruleset(self) -> str:
        """The nft script that puts the table as it must be, whatever it was, in one transaction."""
        return f"""\
add table ip {self.table}
delete table ip {self.table}
table ip {self.table} {{
  chain source {{
    type filter hook prerouting priority raw; policy accept;
    ip saddr {self.subnet} fib saddr . iif oif missing drop
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ip daddr {self.subnet} ct state established,related accept
    ip daddr {self.subnet} ip saddr != {self.subnet} drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {self.subnet} ip daddr != {self.subnet} masquerade
  }}
}}
"""


def bridge_name(guid: str) -> str:
    """The bridge of the repository `guid`: as long as Linux allows (15 characters)."""
    return f"rd-{guid.replace('-', '')[:12]}"


def choose_subnet(taken: Iterable[IPv4Network]) -> IPv4Network:
    """The first subnet of the pools that overlaps none of `taken`; raises `RefusedError`."""
    taken = tuple(taken)
    for candidate in chain.from_iterable(pool.subnets(new_prefix=PREFIX) for pool in POOLS):
        if not any(candidate.overlaps(other) for other in taken):
            return candidate
    raise RefusedError(
        "this machine has routes to every subnet that a repository could have",
        "name one: --subnet 10.90.0.0/18; or leave the network to the machine: --network host",
    )


def check_subnet(subnet: IPv4Network, taken: Iterable[IPv4Network]) -> None:
    """Raise `RefusedError` when `subnet` is too small, or overlaps what the machine routes already."""
    if subnet.prefixlen > NETWORK_PREFIX - 1:
        raise RefusedError(
            f"{subnet} is too small for a repository", f"take a /{NETWORK_PREFIX - 1} or larger"
        )
    for other in taken:
        if subnet.overlaps(other):
            raise RefusedError(f"{subnet} overlaps {other}, which this machine uses", "choose another subnet")


def routed_subnets() -> tuple[IPv4Network, ...]:
    """The networks that the machine has routes to, the default route excepted."""
    routes = json.loads(_run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    found = (_network(str(route.get("dst", ""))) for route in routes)
    return tuple(network for network in found if network and network.prefixlen > 0)


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text, strict=False)
    except ipaddress.AddressValueError:
        return None


def up(network: Network) -> None:
    """Make the bridge and the table, or put right what is there of them; raises `CommandFailedError`."""
    # Not by /sys/class/net: it shows the network namespace in which sysfs was mounted.
    bridges = json.loads(_run(["ip", "-json", "link", "show", "type", "bridge"]) or "[]")
    if network.bridge not in {link.get("ifname") for link in bridges}:
        _run(["ip", "link", "add", network.bridge, "type", "bridge"])
    _run(["ip", "-4", "address", "replace", network.gateway, "dev", network.bridge])
    _run(["ip", "link", "set", network.bridge, "up"])
    _run(["nft", "-f", "-"], network.ruleset())
    # Containers reach the outside through the host: without forwarding the bridge is an island.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def down(network: Network) -> None:
    """Remove the table, the bridge, and the bridges of the tenant's networks; nothing there is fine."""
    _run(["nft", "-f", "-"], f"add table ip {network.table}\ndelete table ip {network.table}\n")
    for link in bridges_within(network.subnet):
        try:
            _run(["ip", "link", "delete", link])
        except CommandFailedError:
            # ``renet repo run`` cleans up as well when its daemon ends: either may be the first.
            if link in bridges_within(network.subnet):
                raise


def bridges_within(subnet: IPv4Network) -> tuple[str, ...]:
    """The bridges whose address lies in `subnet`: the repository's own, and those dockerd made."""
    links = json.loads(_run(["ip", "-json", "-4", "address", "show", "type", "bridge"]) or "[]")
    return tuple(
        str(link["ifname"])
        for link in links
        if any(ipaddress.ip_address(entry["local"]) in subnet for entry in link.get("addr_info", ()))
    )


def _run(command: list[str], script: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CommandFailedError(
            f"{command[0]} is not installed, and the repository's network needs it",
            "apt-get install iproute2 nftables; or leave the network to the machine: --network host",
        ) from error
    if done.returncode:
        raise CommandFailedError(
            f"{' '.join(command)} failed: {done.stderr.strip() or done.returncode}",
            "renet doctor says what this machine's network lacks",
        )
    return done.stdout

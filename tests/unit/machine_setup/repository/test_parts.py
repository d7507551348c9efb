"""The pure parts of a repository's daemon: its network's addresses, its command line, what it sees."""

from datetime import UTC, datetime
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest

from grants_cli.refs import Ref
from grants_cli.register import Repository
from machine_setup.repository import flags, mounts, network
from machine_setup.repository.engine import EngineVersion
from spec.errors import RefusedError
from spec.layout import Layout

GUID = "0123456a-89ab-4def-8123-456789abcdef"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 28.5.2+dfsg4, build 3ef3c07", (28, 5, 2)),
        ("Docker version 26.1, build x", (26, 1, 0)),
        ("29.3.1", (29, 3, 1)),
    ],
)
def test_versions_are_read_and_compared_as_numbers(text: str, version: tuple[int, int, int]) -> None:
    assert EngineVersion.parse(text) == EngineVersion(*version)
    assert EngineVersion(9, 0) < EngineVersion(28, 5, 2) < EngineVersion(28, 10)
    with pytest.raises(ValueError, match="no version"):
        EngineVersion.parse("dockerd")


def test_subnets_of_repositories_never_overlap_each_other_or_the_machines() -> None:
    taken = [IPv4Network("10.0.0.0/16"), IPv4Network("10.128.0.0/14")]
    for _ in range(40):
        taken.append(network.choose_subnet(taken))
    assert not [pair for pair in combinations(taken, 2) if pair[0].overlaps(pair[1])]


def test_a_machine_that_routes_all_of_ten_gets_other_addresses() -> None:
    assert network.choose_subnet([IPv4Network("10.0.0.0/8")]) == IPv4Network("172.16.0.0/18")
    everything = [*network.POOLS, IPv4Network("10.0.0.0/8")]
    with pytest.raises(RefusedError, match="every subnet"):
        network.choose_subnet(everything)


@pytest.mark.parametrize("subnet", ["10.128.0.0/18", "10.90.0.0/24", "10.90.0.0/25", "172.16.0.0/12"])
def test_the_bridge_and_the_tenants_networks_share_a_subnet_without_overlap(subnet: str) -> None:
    own = network.Network(network.bridge_name(GUID), IPv4Network(subnet))
    assert own.bridge_subnet.subnet_of(own.subnet)
    assert own.tenant_pool.subnet_of(own.subnet)
    assert not own.bridge_subnet.overlaps(own.tenant_pool)
    assert len(own.bridge) <= 15
    assert own.table == "rediacc-0123456a89ab"
    script = own.ruleset()
    assert script.count(own.table) == 3
    assert "flush" not in script


@pytest.mark.parametrize("subnet", ["10.90.0.0/26", "10.128.1.0/24"])
def test_a_subnet_that_cannot_serve_is_refused(subnet: str) -> None:
    with pytest.raises(RefusedError):
        network.check_subnet(IPv4Network(subnet), [IPv4Network("10.128.0.0/16")])


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        ("dockerd --authorization-plugin=a --authorization-plugin b", "authorization-plugin", ("a", "b")),
        ("dockerd -H fd:// -H tcp://:2375", "host", ("fd://", "tcp://:2375")),
        ("dockerd -Htcp://:2375 --debug", "host", ("tcp://:2375",)),
        ("dockerd -D --config-file /x", "config-file", ("/x",)),
        ("dockerd --iptables=false --add-runtime nvidia=/n", "add-runtime", ("nvidia=/n",)),
        ("dockerd --experimental --data-root /d", "experimental", ("true",)),
    ],
)
def test_command_lines_are_read_as_dockerd_reads_them(line: str, name: str, values: tuple[str, ...]) -> None:
    assert flags.parse(line.split())[name] == values


def repository(layout: Layout, name: str = "gpu-a") -> Repository:
    ref = Ref.parse(name)
    return Repository(
        GUID, ref, layout.docker_socket(ref.slug), layout.data_root(GUID), layout.daemon_json(ref.slug),
        managed=True, created_at=datetime(2026, 1, 31, tzinfo=UTC), exec_root=layout.exec_root(GUID),
    )  # fmt: skip


def test_the_unit_and_the_foreground_show_a_daemon_the_same_things() -> None:
    layout = Layout.at("/")
    steps = mounts.plan(layout, repository(layout))
    unit, script = mounts.as_unit_settings(steps), mounts.as_script(steps, ["dockerd"])
    for step in steps:
        path = str(step.target if isinstance(step, mounts.Bound) else step.path)
        assert path in unit
        assert path in script
    assert "BindReadOnlyPaths=/run/rediacc/cdi/gpu-a:/etc/cdi\n" in unit
    assert f"BindPaths=/var/lib/rediacc/repos/{GUID}:" in unit


def test_the_unit_and_the_foreground_drop_the_same_capabilities() -> None:
    unit = Path(__file__).parents[4] / "deploy/systemd/rediacc-docker@.service"
    (line,) = [row for row in unit.read_text().splitlines() if row.startswith("CapabilityBoundingSet=~")]
    named = line.partition("~")[2].lower().replace("cap_", "").split()
    assert tuple(named) == mounts.DROPPED


@pytest.mark.parametrize("name", ["a" * 63, f"{'a' * 63}:{'b' * 63}"])
def test_sockets_of_a_daemon_are_short_enough_whatever_its_name(name: str) -> None:
    layout = Layout.at("/")
    longest = layout.exec_root(repository(layout, name).guid) / "containerd/containerd-debug.sock.ttrpc"
    assert len(str(longest)) < 108

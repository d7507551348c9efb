"""A repository's network, in a network namespace that stands for the machine, with another for the world."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.engine.obtain import Engine
from tests.engine.repositories import Repositories

# In the machine: a table that is somebody else's, which must stay as it is.
OTHERS = """\
table ip others {
  chain forward { type filter hook forward priority 10; policy accept;
    ip daddr 203.0.113.7 drop
  }
}
"""
#: Says the address that it sees.
ECHO = """\
import http.server, socketserver  # not HTTPServer: it asks a DNS for its own name
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.client_address[0].encode())
    def log_message(self, *_): pass
socketserver.ThreadingTCPServer(("192.0.2.2", 8000), Handler).serve_forever()
"""


def sh(*command: str, script: str | None = None, check: bool = True) -> str:
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=30)
    assert not check or done.returncode == 0, (command, done.stderr)
    return done.stdout


@dataclass(frozen=True)
class World:
    """The machine's namespace (192.0.2.1) and one outside of it (192.0.2.2)."""

    machine: str
    outside: str

    def inside(self, *command: str, check: bool = True) -> str:
        return sh("nsenter", f"--net=/run/netns/{self.machine}", *command, check=check)

    def out(self, *command: str, check: bool = True) -> str:
        return sh("nsenter", f"--net=/run/netns/{self.outside}", *command, check=check)

    def rules(self, table: str = "") -> str:
        return self.inside("nft", "list", *(["table", "ip", table] if table else ["ruleset"]), check=False)


@pytest.fixture
def world() -> Iterator[World]:
    mark = uuid.uuid4().hex[:6]
    world = World(f"gate-in-{mark}", f"gate-out-{mark}")
    with ExitStack() as stack:
        for name in (world.machine, world.outside):
            sh("ip", "netns", "add", name)
            stack.callback(sh, "ip", "netns", "delete", name)
        sh(
            "ip",
            "-n",
            world.machine,
            "link",
            "add",
            "up0",
            "type",
            "veth",
            "peer",
            "up0",
            "netns",
            world.outside,
        )
        for name, address in ((world.machine, "192.0.2.1/24"), (world.outside, "192.0.2.2/24")):
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "address", "add", address, "dev", "up0")
            sh("ip", "-n", name, "link", "set", "up0", "up")
        sh("nsenter", f"--net=/run/netns/{world.machine}", "nft", "-f", "-", script=OTHERS)
        enter = ["nsenter", f"--net=/run/netns/{world.outside}"]
        server = subprocess.Popen([*enter, "python3", "-c", ECHO], stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        yield world


@pytest.fixture
def machine(engine: Engine, world: World) -> Iterator[Repositories]:
    with Repositories(engine, world.machine) as machine:
        yield machine


def fetch(machine: Repositories, name: str, *options: str, url: str = "http://192.0.2.2:8000") -> str:
    """What a new container of the repository reads from `url`; empty when it reaches nobody."""
    done = machine.docker(
        name,
        "run",
        "--rm",
        "--init",
        *options,
        "busybox",
        "timeout",
        "2",
        "wget",
        "-q",
        "-O",
        "-",
        url,
        check=False,
    )
    return done.stdout


def serve(machine: Repositories, name: str, *options: str) -> str:
    """Start a web server in the repository; its address."""
    machine.docker(name, "run", "-d", "--name=web", "--stop-timeout=1", *options, "busybox", "sh", "-c",
                   f"echo from {name} >/index.html; exec httpd -f -p 80 -h /")  # fmt: skip
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return machine.docker(name, "inspect", f"--format={form}", "web").stdout.strip()


def test_out_in_and_nothing_in_between(machine: Repositories, world: World) -> None:
    others = world.rules("others")
    for name in ("gpu-a", "gpu-b"):
        machine.create(name, "--network", "bridge")
    subnets = {machine.repository(name).subnet for name in ("gpu-a", "gpu-b")}
    assert subnets == {"10.128.0.0/18", "10.128.64.0/18"}

    # Out, from the default network and from one that the tenant made, as the machine.
    assert fetch(machine, "gpu-a") == "192.0.2.1"
    machine.docker("gpu-b", "network", "create", "own")
    assert fetch(machine, "gpu-b", "--network=own") == "192.0.2.1"

    # In, by a published port, from outside and from the machine itself.
    address = serve(machine, "gpu-a", "-p", "8080:80")
    for url in ("http://192.0.2.1:8080", "http://127.0.0.1:8080"):
        side = world.out if "192" in url else world.inside
        assert "from gpu-a" in side("busybox", "timeout", "3", "wget", "-q", "-O", "-", url)

    # Within the repository, by name.
    serve(machine, "gpu-b", "--network=own")
    assert "from gpu-b" in fetch(machine, "gpu-b", "--network=own", url="http://web")

    # Nothing else: not from another repository, not from outside with a route.
    assert fetch(machine, "gpu-a", url=f"http://{address}") != ""
    assert fetch(machine, "gpu-b", url=f"http://{address}") == ""
    assert fetch(machine, "gpu-b", "--network=own", url=f"http://{address}") == ""
    world.out("ip", "route", "add", "10.128.0.0/18", "via", "192.0.2.1")
    assert (
        world.out("busybox", "timeout", "2", "wget", "-q", "-O", "-", f"http://{address}", check=False) == ""
    )

    # One repository's end is nothing to the other, nor to anybody else's rules.
    table = f"rediacc-{machine.repository('gpu-b').guid.replace('-', '')[:12]}"
    kept = world.rules(table)
    assert "masquerade" in kept
    machine.command("repo", "delete", "gpu-a")
    assert machine.wait("gpu-a") == 0
    assert world.rules(table) == kept
    assert fetch(machine, "gpu-b") == "192.0.2.1"
    machine.command("repo", "delete", "gpu-b")
    assert world.rules() == others
    assert "rd-" not in world.inside("ip", "link")
    assert "br-" not in world.inside("ip", "link")


def test_an_address_of_a_repository_counts_on_its_own_bridges_only(
    machine: Repositories, world: World
) -> None:
    machine.create("gpu-a", "--network", "bridge", image=False)
    world.out("ip", "address", "add", "10.128.0.77/32", "dev", "lo")
    world.out("ip", "route", "add", "10.128.0.0/18", "via", "192.0.2.1", "src", "10.128.0.77")
    table = f"rediacc-{machine.repository('gpu-a').guid.replace('-', '')[:12]}"
    world.inside("nft", "insert", "rule", "ip", table, "source", "ip", "saddr", "10.128.0.77", "counter")
    world.out("busybox", "ping", "-c", "1", "-W", "1", "-I", "10.128.0.77", "10.128.0.1", check=False)
    assert "packets 1 " in world.rules(table)
    # Counted, then dropped: no answer, for the sender is not where the address belongs.
    answer = world.out(
        "busybox", "ping", "-c", "1", "-W", "1", "-I", "10.128.0.77", "10.128.0.1", check=False
    )
    assert "100% packet loss" in answer


def test_a_named_subnet_and_a_taken_one(machine: Repositories) -> None:
    made = machine.answer("repo", "create", "gpu-a", "--subnet", "10.90.0.0/20")
    assert made["subnet"] == "10.90.0.0/20"
    refused = machine.command("repo", "create", "gpu-b", "--subnet", "10.90.8.0/21", check=False)
    assert refused.returncode == 4
    assert "10.90.0.0/20" in refused.stderr
    refused = machine.command("repo", "create", "gpu-b", "--subnet", "192.0.2.0/24", check=False)
    assert refused.returncode == 4
    assert [each["ref"] for each in machine.answer_list()] == ["gpu-a"]

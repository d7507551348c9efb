"""What an operator sees of the gate: metrics, health, and what systemd is told."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from grants_cli.grants import Grant
from grants_cli.store import GrantStore
from tests.gate_process import PING, RENET, REQUEST, GateProcess, ask, connect, message

DASHBOARD = Path(__file__).parents[3] / "deploy/grafana/rediacc-gate.json"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[GateProcess]:
    with GateProcess(tmp_path) as process:
        yield process


def scrape(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_tell_decisions_grants_and_files_that_cannot_be_read(gate: GateProcess) -> None:
    port = free_port()
    gate.options = ("--metrics", f"127.0.0.1:{port}")
    path = gate.adopt("a")
    with GrantStore(gate.layout).transaction() as transaction:
        (repository,) = transaction.register.repositories
        granted = Grant("nvidia.com/gpu=0", False, transaction.now, "root")
        transaction.commit("grant", transaction.grants.replaced(repository.guid, [granted]))
    gate.start().wait(path)
    with connect(path) as sock:
        for _ in range(3):
            ask(sock, REQUEST, PING)
        ask(sock, REQUEST, message("POST", "/v1.47/swarm/init"))
        seen = scrape(port)
        gate.layout.grants.write_text("{")
        ask(sock, REQUEST, message("GET", "/v1.47/containers/json"))
        gpu = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}
        ask(sock, REQUEST, message("POST", "/v1.47/containers/create", {"HostConfig": gpu}))
    allowed = (("outcome", "allow"), ("repository", "a"), ("rule", ""))
    assert seen["rediacc_gate_decisions_total", allowed] == 3
    denied = (("outcome", "deny"), ("repository", "a"), ("rule", "swarm"))
    assert seen["rediacc_gate_decisions_total", denied] == 1
    assert seen["rediacc_gate_grants", (("repository", "a"),)] == 1
    assert seen["rediacc_gate_decision_seconds_count", (("outcome", "allow"),)] == 3
    assert seen["rediacc_gate_reload_errors_total", (("file", "grants"),)] == 0
    assert scrape(port)["rediacc_gate_reload_errors_total", (("file", "grants"),)] >= 1


def test_a_worker_that_dies_leaves_the_metrics_where_they_are(gate: GateProcess) -> None:
    port = free_port()
    gate.options = ("--metrics", f"127.0.0.1:{port}")
    gate.start().wait(gate.adopt("a"))
    gate.kill_worker()
    assert scrape(port)["rediacc_gate_reload_errors_total", (("file", "register"),)] == 0


def test_nothing_listens_for_scrapers_unless_it_is_asked_for(gate: GateProcess) -> None:
    gate.start().wait(gate.adopt("a"))
    for pid in (gate.worker, gate.process.pid if gate.process else 0):
        inodes = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            assert not {f"socket:[{row.split()[9]}]" for row in rows} & inodes


@pytest.mark.parametrize("address", ["9464", "localhost:", "localhost:http"])
def test_an_address_that_is_none_is_refused(gate: GateProcess, address: str) -> None:
    gate.options = ("--metrics", address)
    gate.start()
    assert gate.process is not None
    assert gate.process.wait(20) == 2
    assert "is no address for metrics" in gate.log


def test_the_dashboard_shows_metrics_that_exist(gate: GateProcess) -> None:
    port = free_port()
    gate.options = ("--metrics", f"127.0.0.1:{port}")
    path = gate.adopt("a")
    gate.start().wait(path)
    with connect(path) as sock:
        ask(sock, REQUEST, PING)
    names = {name for name, _ in scrape(port)}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(expressions) >= 5
    for expression in expressions:
        assert any(name in expression for name in names), expression


def health(gate: GateProcess, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RENET, "gate", "health", *options],
        env=gate.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_health_asks_every_socket(gate: GateProcess) -> None:
    paths = gate.adopt("a"), gate.adopt("b")
    silent = health(gate)
    assert silent.returncode == 6
    assert str(paths[0]) in silent.stderr
    gate.start().wait(*paths)
    answer = health(gate, "-o", "json")
    assert json.loads(answer.stdout) == {"ok": True, "data": {"sockets": 2}}


def test_health_is_bad_when_the_worker_answers_nobody(
    gate: GateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.start().wait(gate.adopt("a"))
    worker = gate.worker
    os.kill(worker, signal.SIGSTOP)
    try:
        assert health(gate).returncode == 6
    finally:
        os.kill(worker, signal.SIGCONT)


def test_systemd_is_told_when_the_gate_answers_and_while_it_lives(gate: GateProcess, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        gate.environment["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        path = gate.adopt("a")
        gate.start()
        first = systemd.recv(4096).decode()
        assert "READY=1" in first
        assert "STATUS=" in first
        assert gate.answers(path)
        assert systemd.recv(4096) == b"WATCHDOG=1"
        # A worker that hangs: the silence is what makes systemd act.
        os.kill(gate.worker, signal.SIGSTOP)
        systemd.settimeout(6)
        with contextlib.suppress(TimeoutError):
            for _ in range(1000):
                assert systemd.recv(4096) == b"WATCHDOG=1"
            pytest.fail("systemd is told that the gate lives")
        os.kill(gate.worker, signal.SIGCONT)
        systemd.settimeout(20)
        assert systemd.recv(4096) == b"WATCHDOG=1"
        gate.stop()
        said = b""
        while said != b"STOPPING=1":
            said = systemd.recv(4096)

"""What the checks make of facts that no engine on a test machine can give."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grants_cli.refs import Ref
from grants_cli.register import Repository
from machine_setup.doctor import daemon_checks, examine
from machine_setup.doctor.facts import DaemonFacts, SocketFacts
from machine_setup.doctor.finding import Finding, Status
from machine_setup.repository import flags
from machine_setup.repository.engine import EngineVersion

CLOSED = {
    "authorization-plugins": ["rediacc-gpu-a"],
    "builder": {"entitlements": {"device": False, "security-insecure": False}},
    "cdi-spec-dirs": ["/etc/cdi"],
    "features": {"cdi": True},
}
INFO = {
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
    "CDISpecDirs": ["/etc/cdi"],
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}],
}
SOCKET = SocketFacts(Path("/run/x.sock"), exists=True, mode=0o600)
SOUND = DaemonFacts(
    repository=Repository(
        "g", Ref.parse("gpu-a"), Path("/run/x.sock"), Path("/d"), Path("/d.json"), managed=True,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    ),
    plugin="rediacc-gpu-a",
    spec_dir=Path("/etc/cdi"),
    view_dir=Path("/run/rediacc/cdi/gpu-a"),
    pid=7,
    flags={},
    config=CLOSED,
    config_problem="",
    version=EngineVersion(29, 3, 1),
    info=INFO,
    info_problem="",
    asks_gate=True,
    gate_problem="",
    api_socket=SOCKET,
    plugin_socket=SOCKET,
    tcp_ports=(),
    seen=("nvidia.com/gpu=0",),
    has_view=True,
)  # fmt: skip


def found(facts: DaemonFacts) -> dict[str, Finding]:
    return {each.id: each for each in examine.examine(facts) if each.status is not Status.OK}


def test_a_sound_daemon_on_a_recommended_engine_is_all_in_order() -> None:
    assert found(SOUND) == {}
    ids = [each.id for each in examine.examine(SOUND)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("version", "status", "names"),
    [
        ("20.10.24", Status.FAILURE, "CVE-2024-41110"),
        ("25.0.5", Status.FAILURE, "CVE-2024-41110"),
        ("26.1.4", Status.FAILURE, "CVE-2024-41110"),
        ("27.0.3", Status.FAILURE, "CVE-2024-41110"),
        ("27.1.0", Status.FAILURE, "CVE-2024-41110"),
        ("25.0.6", Status.WARNING, "CVE-2026-34040"),
        ("26.1.5", Status.WARNING, "CVE-2026-34040"),
        ("27.1.1", Status.WARNING, "CVE-2026-34040"),
        ("28.5.2", Status.WARNING, "CVE-2026-34040"),
        ("29.3.0", Status.WARNING, "CVE-2026-34040"),
        ("29.3.1", Status.OK, ""),
        ("30.0.0", Status.OK, ""),
    ],
)
def test_engines_older_than_a_fix(version: str, status: Status, names: str) -> None:
    (finding,) = daemon_checks.engine_version(replace(SOUND, version=EngineVersion.parse(version)))
    assert finding.status is status
    assert names in finding.found + finding.why


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("dockerd --cdi-spec-dir /etc/cdi --cdi-spec-dir /var/run/cdi", "spec-directories"),
        ("dockerd --default-runtime=nvidia", "default-runtime"),
        ("dockerd --add-runtime nvidia=/usr/bin/nvidia-container-runtime", "other-runtimes"),
        ("dockerd -H fd:// -H tcp://0.0.0.0:2375", "tcp-socket"),
        ("dockerd --experimental", "experimental"),
        ("dockerd --nri-opts enable=true", "nri"),
        ("dockerd --feature cdi=false", "cdi-enabled"),
    ],
)
def test_what_a_flag_opens_is_found_though_the_file_is_closed(line: str, identity: str) -> None:
    assert list(found(replace(SOUND, flags=flags.parse(line.split())))) == [identity]


@pytest.mark.parametrize(
    ("change", "identity"),
    [
        ({"info": None, "info_problem": "its gate does not answer"}, "daemon-running"),
        ({"pid": None, "info": None}, "daemon-running"),
        ({"asks_gate": False}, "plugin-live"),
        ({"info": {**INFO, "NRI": {"Info": [["on", "1"]]}}}, "nri-live"),
        ({"seen": ()}, "spec-directories-live"),
        ({"has_view": False}, "view-in-place"),
        ({"tcp_ports": (2375,)}, "tcp-listener"),
        ({"version": None}, "engine-version"),
        ({"api_socket": replace(SOCKET, mode=0o666)}, "api-socket"),
        ({"api_socket": replace(SOCKET, uid=1000)}, "api-socket"),
        ({"api_socket": replace(SOCKET, mode=0o660, gid=1234)}, "api-socket"),
        ({"plugin_socket": replace(SOCKET, mode=0o660)}, "plugin-socket"),
        ({"config": {}, "config_problem": "/d.json cannot be read"}, "plugin-configured"),
    ],
)
def test_each_bad_fact_is_found_with_a_reason_and_a_fix(change: dict[str, object], identity: str) -> None:
    findings = found(replace(SOUND, **change))  # type: ignore[arg-type]
    assert findings[identity].why
    assert findings[identity].fix

"""The edge: what the gate reads of its machine, and that it fails closed when it cannot."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import plugin
from grants_cli.grants import Grant
from grants_cli.refs import Ref
from grants_cli.register import Register, Repository
from grants_cli.store import GrantStore
from grants_cli.times import utc_now
from plugin.check import check
from plugin.decide import Decision
from plugin.gate import Gate
from spec.layout import Layout

NOW = utc_now()
GUID = "11111111-1111-4111-8111-111111111111"
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}}],
}
CLOSED = {"builder": {"entitlements": {"device": False, "security-insecure": False}}}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A machine with one repository, gpu-a, one device and closed builds."""
    layout = Layout.at(tmp_path)
    layout.cdi_dir.mkdir(parents=True)
    (layout.cdi_dir / "nvidia.json").write_text(json.dumps(SPEC))
    settings = layout.daemon_json("gpu-a")
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({**CLOSED, "cdi-spec-dirs": [str(layout.cdi_dir)]}))
    repository = Repository(
        GUID, Ref.parse("gpu-a"), tmp_path / "docker.sock", tmp_path / "data", settings, True, NOW
    )
    with GrantStore(layout).transaction() as change:
        change.commit("test", register=Register((repository,)))
    return layout


@pytest.fixture
def clock() -> list[datetime]:
    """The gate's clock: its last entry is what it shows."""
    return [NOW]


@pytest.fixture
def gate(layout: Layout, clock: list[datetime]) -> Iterator[Gate]:
    with contextlib.closing(Gate(layout, clock=lambda: clock[-1])) as gate:
        yield gate


@pytest.fixture
def ask(layout: Layout, gate: Gate) -> Callable[..., Decision]:
    """Asks the gate, as dockerd does."""

    def ask(method: str, target: str, body: object = None, slug: str = "gpu-a") -> Decision:
        message: dict[str, object] = {"RequestMethod": method, "RequestUri": target}
        if body is not None:
            message["RequestBody"] = base64.b64encode(json.dumps(body).encode()).decode()
        return gate.judge(str(layout.plugin_socket(slug)), json.dumps(message).encode())

    return ask


def grant(layout: Layout, device: str = "nvidia.com/gpu=0", expires: datetime | None = None) -> None:
    with GrantStore(layout).transaction() as change:
        grants = change.grants.replaced(GUID, [Grant(device, False, NOW, "root", expires)])
        change.commit("test", grants=grants)


def asks_for(device: str) -> dict[str, object]:
    return {"Image": "a", "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [device]}]}}


def rule(decision: Decision) -> str:
    return decision.denial.rule if decision.denial else ""


def log(layout: Layout) -> list[dict[str, object]]:
    if not layout.gate_log.exists():
        return []
    return [json.loads(line) for line in layout.gate_log.read_text().splitlines()]


def test_a_grant_counts_from_the_next_request_on(
    layout: Layout, ask: Callable[..., Decision], clock: list[datetime]
) -> None:
    create = ("POST", "/containers/create", asks_for("nvidia.com/gpu=0"))
    assert rule(ask(*create)) == "device-not-granted"
    grant(layout)
    assert ask(*create) == Decision(True, devices=("nvidia.com/gpu=0",))
    grant(layout, expires=NOW + timedelta(hours=1))
    assert ask(*create).allow
    clock.append(NOW + timedelta(hours=1))
    assert rule(ask(*create)) == "device-not-granted"


def test_a_new_device_is_named_in_the_next_denial(layout: Layout, ask: Callable[..., Decision]) -> None:
    body = {"Image": "a", "HostConfig": {"Devices": [{"PathOnHost": "/dev/kfd"}]}}
    assert "nvidia.com/gpu=1" not in ask("POST", "/containers/create", body).denial.text  # type: ignore[union-attr]
    spec = {**SPEC, "devices": [{**SPEC["devices"][0], "name": "1"}]}  # type: ignore[dict-item]
    (layout.cdi_dir / "more.json").write_text(json.dumps(spec))
    assert "nvidia.com/gpu=1" in ask("POST", "/containers/create", body).denial.text  # type: ignore[union-attr]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version":2,"grants":{}}', '{"version":1}'])
def test_grants_that_cannot_be_read_admit_no_device_and_stop_nothing_else(
    layout: Layout, ask: Callable[..., Decision], content: str
) -> None:
    grant(layout)
    layout.grants.write_text(content)
    assert rule(ask("POST", "/containers/create", asks_for("nvidia.com/gpu=0"))) == "grants-unreadable"
    assert ask("POST", "/containers/create", {"Image": "a"}).allow
    assert ask("GET", "/_ping").allow


def test_a_register_that_cannot_be_read_stops_everything(
    layout: Layout, ask: Callable[..., Decision]
) -> None:
    layout.register.write_text("{")
    assert rule(ask("GET", "/_ping")) == "unknown-repository"


def test_an_unknown_repository(ask: Callable[..., Decision]) -> None:
    assert rule(ask("GET", "/_ping", slug="gpu-b")) == "unknown-repository"


def test_builds_follow_the_daemons_settings_and_the_specs(
    layout: Layout, ask: Callable[..., Decision]
) -> None:
    assert ask("POST", "/session").allow
    settings = layout.daemon_json("gpu-a")
    for text in ("{}", "not json", "[]", '{"builder":{"entitlements":{"device":false}}}', '{"builder":[]}'):
        settings.write_text(text)
        assert rule(ask("POST", "/session")) == "build-device"
    settings.unlink()
    assert rule(ask("POST", "/build?t=x")) == "build-device"
    settings.write_text(json.dumps(CLOSED))
    device = {**SPEC["devices"][0], "annotations": {"org.mobyproject.buildkit.device.autoallow": "true"}}  # type: ignore[dict-item]
    (layout.cdi_dir / "auto.json").write_text(
        json.dumps({**SPEC, "cdiVersion": "0.6.0", "kind": "example.com/x", "devices": [device]})
    )
    decision = ask("POST", "/grpc")
    assert rule(decision) == "build-device"
    assert "auto.json" in decision.denial.message  # type: ignore[union-attr]


def test_the_places_of_the_machine_are_closed(layout: Layout, ask: Callable[..., Decision]) -> None:
    def bind(path: Path | str) -> str:
        return rule(
            ask("POST", "/containers/create", {"Image": "a", "HostConfig": {"Binds": [f"{path}:/x"]}})
        )

    for path in (
        layout.root,
        layout.root / "etc",
        layout.root / "data/x",
        layout.grants,
        layout.plugin_dir,
        layout.cdi_dir,
        layout.daemon_json("gpu-a"),
        Path(plugin.__file__).parent,
    ):
        assert bind(path) == "bind-control", path
    assert bind(layout.root / "elsewhere") == ""
    assert bind(layout.root / "docker.sock") == ""
    assert bind(layout.repository_dir(GUID) / "files") == ""
    assert bind(layout.repository_dir("22222222-2222-4222-8222-222222222222") / "files") == "bind-control"


def test_denials_and_uses_of_grants_are_logged(layout: Layout, ask: Callable[..., Decision]) -> None:
    grant(layout)
    assert ask("GET", "/_ping").allow
    assert log(layout) == []
    ask("POST", "/containers/create?name=web", asks_for("nvidia.com/gpu=0"))
    denied = ask("POST", "/swarm/init")
    used, refused = log(layout)
    assert (used["decision"], used["container"], used["devices"]) == ("allow", "web", ["nvidia.com/gpu=0"])
    assert (refused["decision"], refused["rule"], refused["repository"]) == ("deny", "swarm", "gpu-a")
    assert denied.denial is not None
    assert denied.denial.text.endswith(f"(gate log {refused['id']})")


def test_all_decisions_are_logged_on_request(layout: Layout, ask: Callable[..., Decision]) -> None:
    layout.gate_options.write_text("version: 1\nlog: all\n")
    ask("GET", "/_ping")
    assert len(log(layout)) == 1


def test_a_log_that_cannot_be_written_changes_no_decision(
    layout: Layout, ask: Callable[..., Decision]
) -> None:
    layout.gate_log.mkdir(parents=True)
    assert rule(ask("POST", "/swarm/init")) == "swarm"


def test_a_message_that_is_none_is_denied_and_logged(layout: Layout, gate: Gate) -> None:
    assert rule(gate.judge(str(layout.plugin_socket("gpu-a")), b"")) == "unreadable-request"
    assert log(layout)[0]["rule"] == "unreadable-request"


def test_check_says_what_is_so(layout: Layout) -> None:
    said = {finding.what: finding for finding in check(layout)}
    assert said["repositories"].said == "1 registered"
    assert said["builds of gpu-a"].said.startswith("allowed")
    assert not any(finding.is_broken for finding in said.values())
    layout.gate_options.write_text("version: 1\nrepositories: {gpu-z: {allow: {host-ipc: true}}}\n")
    said = {finding.what: finding for finding in check(layout)}
    assert "host-ipc" in said["options for gpu-z"].said
    assert "spelled right" in said["options for gpu-z"].hint


@pytest.mark.parametrize(
    ("name", "what"), [("gate_options", "options"), ("grants", "grants"), ("register", "repositories")]
)
def test_check_names_every_file_that_is_broken(layout: Layout, name: str, what: str) -> None:
    path: Path = getattr(layout, name)
    path.write_text("{")
    path.chmod(0o600)
    broken = [finding for finding in check(layout) if finding.is_broken]
    assert [finding.what for finding in broken] == [what]
    assert str(path) in broken[0].said


def test_a_mistake_in_the_options_is_told_at_the_start_and_when_it_is_made(
    layout: Layout, clock: list[datetime], caplog: pytest.LogCaptureFixture
) -> None:
    host_ipc = {"Image": "a", "HostConfig": {"IpcMode": "host"}}
    message = {
        "RequestMethod": "POST",
        "RequestUri": "/containers/create",
        "RequestBody": base64.b64encode(json.dumps(host_ipc).encode()).decode(),
    }
    layout.gate_options.write_text("version: 1\nrepositories: {gpu-a: {allow: {privileged: true}}}\n")
    with contextlib.closing(Gate(layout, clock=lambda: clock[-1])) as gate:
        assert "gate.yaml is not used" in caplog.text
        caplog.clear()

        def judge() -> Decision:
            return gate.judge(str(layout.plugin_socket("gpu-a")), json.dumps(message).encode())

        assert not judge().allow
        layout.gate_options.write_text("version: 1\nrepositories: {gpu-a: {allow: {host-ipc: true}}}\n")
        assert judge().allow
        assert caplog.text == ""
        layout.gate_options.write_text("version: 1\nrepositories: {gpu-a: {allow: {host-ipc: true, x: y}}}\n")
        assert not judge().allow
        assert not judge().allow
        assert caplog.text.count("gate.yaml is not used") == 1

"""Explaining is judging: the same answer for every input, and a correction that the gate would let pass."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugin.compose import load, questions
from plugin.context import Context
from plugin.explain import Explanation, explain
from spec.errors import UsageError
from tests.unit.plugin import vectors
from tests.unit.plugin.machine import USUAL, Machine, ask_gate, context
from tests.unit.plugin.test_vectors import LEGIT_BUT_REFUSED

HERE = Path("/srv/app")


@pytest.fixture(autouse=True)
def without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are read by ourselves: what Compose itself makes of them is in the recorded requests."""
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setenv("HOME", "/home/dev")


def explained(
    content: str | dict[str, Any], where: Context | None = None, machine: Machine = USUAL
) -> Explanation:
    text = content if isinstance(content, str) else json.dumps(content)
    return explain(text.encode(), HERE, where or context("nvidia.com/gpu=all"), machine.ask)


COMPOSE = [
    (case, name)
    for case in vectors.client_requests()
    for name in case.get("files", {})
    if name in {"compose.yaml", "docker-compose.yml", "docker-compose.yaml"}
]


def test_there_are_recorded_compose_files() -> None:
    assert len(COMPOSE) > 60


@pytest.mark.parametrize(("case", "name"), COMPOSE, ids=[case["id"] for case, _ in COMPOSE])
def test_a_compose_file_is_answered_as_its_requests_are(case: dict[str, Any], name: str) -> None:
    own_socket = "/run/docker.sock" if case["intent"] == "legit" else "/run/rediacc/docker-gpu-a.sock"
    granted = context(*(case["needs_grants"] if case["intent"] == "legit" else []), own_socket=own_socket)
    answer = explained(case["files"][name], granted)
    if case["intent"] == "legit" and case["id"] not in LEGIT_BUT_REFUSED:
        assert answer.allowed, answer.text()
    elif case["id"] not in NOT_IN_THE_FILE:
        assert not answer.allowed


# The file alone does not show it: an option of the command line, or a key that only Compose itself resolves.
NOT_IN_THE_FILE = {"c240-run-volume-dev", "c240-use-api-socket", "c240-build-privileged"}
CORRECTABLE = [
    (case, name) for case, name in COMPOSE if case["intent"] != "legit" and case["id"] not in NOT_IN_THE_FILE
]


@pytest.mark.parametrize(("case", "name"), CORRECTABLE, ids=[case["id"] for case, _ in CORRECTABLE])
def test_the_correction_is_allowed_and_keeps_the_rest(case: dict[str, Any], name: str) -> None:
    granted = context("nvidia.com/gpu=all")
    before = load(case["files"][name], HERE)
    answer = explained(case["files"][name], granted)
    after = yaml.safe_load(answer.corrected)
    whole = {**before, **{kind: {**before.get(kind, {}), **entries} for kind, entries in after.items()}}  # type: ignore[dict-item]
    assert all(ask_gate(question.request, granted).allow for question in questions(whole, HERE))
    for service, entry in after.get("services", {}).items():
        assert entry.get("image") == before["services"][service].get("image")  # type: ignore[index]


def test_a_gpu_reservation_becomes_a_device() -> None:
    answer = explained(
        """
        services:
          ollama:
            image: ollama/ollama
            ports: ["11434:11434"]
            runtime: nvidia
            deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}
          web: {image: nginx}
        """
    )
    assert [request.what for request in answer.requests] == ["service ollama", "service web"]
    assert answer.requests[0].where == (
        "services.ollama.deploy.resources.reservations.devices[0]",
        "services.ollama.runtime",
    )
    assert [reason.rule for reason in answer.requests[0].reasons] == ["device-request-form", "runtime"]
    assert yaml.safe_load(answer.corrected) == {
        "services": {
            "ollama": {
                "image": "ollama/ollama",
                "ports": ["11434:11434"],
                "devices": ["nvidia.com/gpu=all"],
            }
        }
    }
    assert "services.ollama.runtime: --runtime nvidia is refused" in answer.text()


def test_nothing_is_promised_without_a_grant() -> None:
    answer = explained("services: {a: {image: x, gpus: all}}", context())
    assert not answer.allowed
    assert answer.corrected == ""
    assert "devices here: nvidia.com/gpu=0" in answer.text()


def test_a_create_body() -> None:
    assert explained({"Image": "alpine"}).allowed
    answer = explained(
        {"Image": "alpine", "HostConfig": {"Privileged": True, "PidMode": "host", "Binds": ["/dev:/d"]}}
    )
    assert {reason.rule for reason in answer.requests[0].reasons} == {
        "privileged",
        "host-pid",
        "bind-hardware",
    }


def test_a_body_is_read_as_the_gate_reads_it() -> None:
    answer = explained('{"Image":"alpine","hostconfig":{"Privileged":true}}')
    assert answer.requests[0].reasons[0].rule == "unreadable-request"


def test_a_recorded_request() -> None:
    answer = explained({"RequestMethod": "POST", "RequestUri": "/v1.47/swarm/init"})
    assert answer.requests[0].reasons[0].rule == "swarm"


def test_a_container_as_docker_inspect_prints_it() -> None:
    container = {
        "Id": "a" * 64,
        "HostConfig": {"Binds": ["/srv:/x"]},
        "Mounts": [{"Type": "bind", "Source": "/dev"}],
    }
    answer = explained(json.dumps([container]))
    assert answer.requests[0].what == "its start"
    assert answer.requests[0].reasons[0].rule == "bind-hardware"
    container["Mounts"] = []
    assert explained(container).allowed


def test_the_record_has_everything() -> None:
    record = explained({"Image": "a", "HostConfig": {"Runtime": "nvidia"}}).record()
    assert record["allowed"] is False
    requests: Any = record["requests"]
    problem = requests[0]["problems"][0]
    assert "--device nvidia.com/gpu=all" in problem["fix"]
    assert record["requests"] == [
        {
            "what": "the container",
            "allowed": False,
            "devices": [],
            "problems": [
                {
                    "rule": "runtime",
                    "tier": "hardware",
                    "field": "HostConfig.Runtime",
                    "key": "",
                    "message": "--runtime nvidia is refused on this machine",
                    "fix": problem["fix"],
                }
            ],
        }
    ]


@pytest.mark.parametrize("content", [b"", b"\xff", b"just text", b"[1, 2]", b"a: [", b'{"RequestMethod": 1}'])
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError):
        explain(content, HERE, context(), USUAL.ask)

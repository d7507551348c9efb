"""The whole recorded evidence, judged: moby's verdicts on bodies and what real clients sent."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugin.decide import Request
from plugin.rules.catalogue import Tier, tier
from tests.unit.plugin import vectors
from tests.unit.plugin.machine import USUAL, Machine, ask_gate, context
from tests.unit.plugin.test_decode import ACCEPTED_ANYWAY

BODIES = vectors.load("go-json")["cases"]

# Confined to the container's own memory and processes, and allowed: the reference counts every capability
# beyond Docker's default set.
EXTRA_CAPABILITIES = {"IPC_LOCK", "SYS_NICE", "SYS_PTRACE", "CHECKPOINT_RESTORE"}


def request_of(case: dict[str, Any]) -> Request:
    body = vectors.body(case)
    method, path = case["endpoint"].split()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return Request(method, path.replace("{name}", "web"), body or None, headers)


def only_harmless_capabilities(case: dict[str, Any]) -> bool:
    added = {name.upper().removeprefix("CAP_") for name in case["effective"].get("CapAdd", ())}
    return case["why"] == ["CapAdd: beyond the default set"] and bool(added & EXTRA_CAPABILITIES)


@pytest.mark.parametrize("case", BODIES, ids=vectors.identifiers(BODIES))
def test_what_go_reads_as_dangerous_is_denied(case: dict[str, Any]) -> None:
    decision = ask_gate(request_of(case), context())
    if (case["dangerous"] and not only_harmless_capabilities(case)) or case.get("v28_5_2", {}).get(
        "dangerous"
    ):
        assert not decision.allow
    if case["legit"] and ("odd_spelling" not in case or case["id"] in ACCEPTED_ANYWAY):
        assert decision.allow, decision.denial


def test_the_cases_with_harmless_capabilities_are_few() -> None:
    assert len([case for case in BODIES if case["dangerous"] and only_harmless_capabilities(case)]) <= 4


CLIENTS = vectors.client_requests()
LEGIT = [case for case in CLIENTS if case["intent"] == "legit"]
OFFENDING = [case for case in CLIENTS if case["intent"] != "legit"]
# For each offending request, the rule that must deny it.
EXPECTED: dict[str, list[str]] = json.loads(Path(__file__).with_name("expected_rules.json").read_text())

# Policy, not certainty, decides these: refused until an operator relaxes the host rule named here.
LEGIT_BUT_REFUSED = {
    "cli28-run-cap-netadmin": {"extra-capability"},
    "cli28-network-macvlan": {"host-network-driver"},
}
# The recorded daemons built whatever was asked. The gate lets a daemon build whose configuration closes the
# entitlements: then these builds end at BuildKit.
BUILDS = {"buildx-device", "buildx-insecure", "c240-build-privileged"}
# An overlay network comes before the services of a stack, and is refused already.
REFUSED_EARLIER = {"cli28-stack-deploy"}
MACHINES = {
    "cli28-bind-symlink-to-dev": Machine(links={"/srv/app/cache": "/dev"}),
    **dict.fromkeys(BUILDS, Machine(build_problem="its daemon.json closes nothing")),
}


def requests_of(case: dict[str, Any]) -> list[Request]:
    return [
        Request(
            sent["RequestMethod"],
            sent["RequestUri"],
            base64.b64decode(sent["RequestBody"]) if "RequestBody" in sent else None,
            sent.get("RequestHeaders", {}),
        )
        for sent in case["requests"]
    ]


@pytest.mark.parametrize("case", LEGIT, ids=vectors.identifiers(LEGIT))
def test_what_people_do_every_day_is_allowed(case: dict[str, Any]) -> None:
    # The recorder's daemon had its API at the usual place, and two of these bind it.
    where = context(*case["needs_grants"], own_socket="/run/docker.sock")
    decisions = [ask_gate(request, where) for request in requests_of(case)]
    denied = {decision.denial.rule for decision in decisions if decision.denial}
    assert denied == LEGIT_BUT_REFUSED.get(case["id"], set())


RELAXED = {
    "cli28-run-cap-netadmin": {"extra-capability": frozenset({"NET_ADMIN"})},
    "cli28-network-macvlan": {"host-network-driver": frozenset({"macvlan"})},
}


@pytest.mark.parametrize("name", LEGIT_BUT_REFUSED)
def test_what_policy_refuses_an_operator_may_allow(name: str) -> None:
    (case,) = [case for case in LEGIT if case["id"] == name]
    where = replace(context(), relaxed=RELAXED[name])
    assert all(ask_gate(request, where).allow for request in requests_of(case))


@pytest.mark.parametrize("case", OFFENDING, ids=vectors.identifiers(OFFENDING))
def test_what_reaches_further_is_denied(case: dict[str, Any]) -> None:
    requests, machine = requests_of(case), MACHINES.get(case["id"], USUAL)
    denied = []
    for position in case["must_deny"]:
        decision = ask_gate(requests[position], context(), machine)
        assert decision.denial is not None
        denied.append(decision.denial.rule)
    assert denied == EXPECTED[case["id"]]
    if case["intent"] == "hardware":
        # What reaches a device is never left to a rule that an operator can relax.
        assert all(tier(rule) is not Tier.HOST for rule in denied)
    if case["id"] not in REFUSED_EARLIER:
        earlier = requests[: case["must_deny"][0]]
        assert all(ask_gate(request, context(), machine).allow for request in earlier)


# Beside a plain CDI name, these ask for hardware in another way.
ALSO_ASK_OTHERWISE = {"cli28-device-with-cdi", "curl-cdi-mixed"}
WITH_A_GRANT = [case for case in OFFENDING if case["needs_grants"] and case["id"] not in BUILDS]


@pytest.mark.parametrize("case", WITH_A_GRANT, ids=vectors.identifiers(WITH_A_GRANT))
def test_a_grant_admits_its_name_in_plain_form_alone(case: dict[str, Any]) -> None:
    requests = requests_of(case)
    for position in case["must_deny"]:
        decision = ask_gate(requests[position], context(*case["needs_grants"]))
        plain = EXPECTED[case["id"]] == ["device-not-granted"] and case["id"] not in ALSO_ASK_OTHERWISE
        assert decision.allow == plain


def test_every_offending_case_has_its_expectation() -> None:
    assert set(EXPECTED) == set(vectors.identifiers(OFFENDING))

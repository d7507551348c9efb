"""The router agrees with moby's own about every target that it accepts, and knows every route of its
inventory."""

import base64
import re
from typing import Any

import pytest

from plugin.denial import DenialError
from plugin.routes import ENDPOINTS, Operation, Verdict, route
from tests.unit.plugin import vectors

CASES = vectors.load("go-routes")["cases"]
INVENTORY = vectors.load("go-routes")["inventory"]


def plain(template: str) -> str:
    """A template with nothing but ``{}`` for what varies: the names and patterns of variables are moby's
    own."""
    return re.sub(r"\{[^}]*\}", "{}", template)


def shown(case: dict[str, Any]) -> str:
    """The target as a plugin is shown it: what is no UTF-8 comes as U+FFFD."""
    if "plugin_sees_uri" in case:
        return str(case["plugin_sees_uri"])
    return (
        str(case["target"])
        if "target" in case
        else base64.b64decode(case["target_b64"]).decode("utf-8", "replace")
    )


def routed(case: dict[str, Any]) -> Operation | DenialError:
    try:
        return route(case["method"], shown(case))
    except DenialError as error:
        return error


@pytest.mark.parametrize("case", CASES, ids=vectors.identifiers(CASES))
def test_what_is_accepted_reaches_what_the_gate_judged(case: dict[str, Any]) -> None:
    result = routed(case)
    if isinstance(result, DenialError) or not case["authz_called"]:
        return
    # 400: a version that dockerd does not speak, after it asked.
    assert case["reaches"] == "400" or plain(case["reaches"]) == plain(result.route)
    if variables := [value for name, value in case["vars"].items() if name in {"name", "id", "image"}]:
        assert result.name == variables[0]


@pytest.mark.parametrize("case", CASES, ids=vectors.identifiers(CASES))
def test_a_body_that_is_hidden_by_the_target_is_never_routed(case: dict[str, Any]) -> None:
    if case["authz_called"] and not case["body_sent_to_plugin"] and case["method"] != "OPTIONS":
        result = routed(case)
        assert isinstance(result, DenialError) or result.route == "POST /auth"


@pytest.mark.parametrize("target", INVENTORY)
def test_every_route_of_the_api_is_known(target: str) -> None:
    assert plain(target) in {plain(endpoint.route) for endpoint in ENDPOINTS}


def test_no_route_is_made_up() -> None:
    assert {plain(endpoint.route) for endpoint in ENDPOINTS} == {plain(target) for target in INVENTORY}
    assert len(ENDPOINTS) == len(INVENTORY) == len({endpoint.route for endpoint in ENDPOINTS})


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.get("inventory")],
    ids=lambda case: case["id"],
)
def test_the_plain_spelling_of_every_route_is_accepted(case: dict[str, Any]) -> None:
    result = routed(case)
    assert not isinstance(result, DenialError)
    assert plain(result.route) == plain(case["reaches"])


REFUSED = [
    "/%63ontainers/create",
    "/containers%2Fcreate",
    "/v1.047/containers/create",
    "/v1.47./containers/create",
    "/v1.47.0.9/containers/create",
    "/v01.47/containers/create",
    "http://docker/v1.47/containers/create",
    "//containers/create",
    "/containers/./create",
    "/containers/x/../create",
    "/containers/create/",
    "/Containers/create",
    "/containers/create#x",
    "/containers/create?#%zz",
    "/containers/a#/exec",
    "/containers/a/b/exec",
    "/containers/x/checkpoints/start",
    "/containers/cre\u0430te",
    "/containers/create\n",
    "/containers\\create",
    "/images/..%2Fcontainers%2Fcreate/push",
    "/images/x%252Fy/push",
    "/images/x%00/push",
    "/images/x%3F/push",
    "/images/x%zz/push",
    "containers/create",
    "*",
    "",
]


@pytest.mark.parametrize("target", REFUSED)
def test_other_spellings_are_refused(target: str) -> None:
    with pytest.raises(DenialError):
        route("POST", target)


@pytest.mark.parametrize("method", ["post", "POST ", "PATCH", "CONNECT", ""])
def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(DenialError):
        route(method, "/containers/create")


@pytest.mark.parametrize(
    "target",
    [
        "/v1.47/images/registry.example:5000/team/app@sha256:00ff/push",
        "/v1.47/images/registry.example:5000%2Fteam%2Fapp%3A1.2/push",
        "/images/alpine/push?tag=3.20",
    ],
)
def test_names_of_images_may_hold_slashes(target: str) -> None:
    assert route("POST", target).route == "POST /images/{image}/push"


def test_an_operation_says_what_was_asked() -> None:
    operation = route("POST", "/v1.47/containers/web-1/start?detachKeys=a")
    assert operation == Operation(operation.endpoint, "web-1", (1, 47), "detachKeys=a")
    assert operation.endpoint.verdict is Verdict.STORED
    assert route("GET", "/_ping").version is None

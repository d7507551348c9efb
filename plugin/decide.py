"""The decision: a request and what is known about its repository, to allow or deny. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plugin.denial import Denial, DenialError


@dataclass(frozen=True)
class Request:
    """One call of a repository's Docker API, as dockerd shows it; `body` is None where it shows none."""

    method: str
    target: str
    body: bytes | None


@dataclass(frozen=True)
class Context:
    """What the decision rests on besides the request.

    `repository` is its ref, `granted` the CDI names with a live grant, `available` every name that a spec
    on the machine defines.
    """

    repository: str
    granted: frozenset[str]
    available: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """Allow, or deny with the reason; `devices` are the granted CDI names that the request uses."""

    allow: bool
    denial: Denial | None = None
    devices: tuple[str, ...] = ()


_CREATE = re.compile(r"(/v[0-9.]+)?/containers/create(\?.*)?")


def decide(request: Request, context: Context) -> Decision:
    """Judge `request`. Never raises for anything that a client can send."""
    if request.method != "POST" or not _CREATE.fullmatch(request.target):
        return Decision(True)
    try:
        devices = _requested_devices(request.body)
    except DenialError as error:
        return Decision(False, error.denial)
    for device in devices:
        if device not in context.granted:
            return Decision(False, not_granted(device, context))
    return Decision(True, devices=devices)


def not_granted(device: str, context: Context) -> Denial:
    """The denial that names the missing grant and the command that gives it."""
    return Denial(
        "device-not-granted",
        f"repository {context.repository} has no grant for {device}",
        f"An operator can give it: rdc repo gpu grant {context.repository} --device {device}",
        "HostConfig.DeviceRequests",
    )


def _requested_devices(body: bytes | None) -> tuple[str, ...]:
    try:
        document: Mapping[str, Any] = json.loads((body or b"").decode())
        requests = document["HostConfig"].get("DeviceRequests") or ()
        return tuple(name for request in requests for name in request["DeviceIDs"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        denial = Denial("unreadable-request", f"the body cannot be read ({error})", "Send the request again")
        raise DenialError(denial) from error

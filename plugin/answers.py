"""The replies of the authorization protocol, as bytes.

dockerd takes a reply only with HTTP status 200: another status reaches the user as a failure of the plugin,
without its message. So a denial, whatever the reason, is a 200 with ``Allow`` false.
"""

import json

from plugin.decide import Decision
from plugin.denial import Denial

CONTENT_TYPE = "application/json"

#: To ``/Plugin.Activate``.
ACTIVATE = b'{"Implements":["authz"]}'
#: To every ``/AuthZPlugin.AuthZRes``: the engine has acted already, there is nothing left to refuse.
ALLOW = b'{"Allow":true}'


def answer(decision: Decision) -> bytes:
    """What dockerd is told of `decision`."""
    if decision.allow:
        return ALLOW
    text = decision.denial.text if decision.denial else "refused"
    return json.dumps({"Allow": False, "Msg": text}).encode()


NOT_ROOT = Decision(
    False,
    Denial(
        "unknown-repository",
        "only a Docker daemon that runs as root may ask this gate",
        "Point authorization-plugins of the repository's daemon.json at the gate",
    ),
)
FAILED = Decision(
    False,
    Denial(
        "unreadable-request",
        "the gate failed while it judged this request",
        "Tell the operator of this machine: the reason is in the gate's log",
    ),
)
NO_CALL = Decision(
    False,
    Denial(
        "unreadable-request",
        "this is no call of Docker's authorization protocol",
        "Let dockerd ask: docs/security.md says how a daemon is put behind the gate",
    ),
)
TOO_LARGE = Decision(
    False,
    Denial(
        "unreadable-request",
        "dockerd's message to the gate is larger than 6 MiB",
        "Send a smaller request: Docker itself takes bodies of at most 4 MiB",
    ),
)

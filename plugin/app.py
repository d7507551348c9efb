"""The gate's front door: the three routes of Docker's authorization protocol, and nothing else."""

import json
import socket
import struct

from flask import Flask, Response, request

from plugin.decide import Decision
from plugin.denial import Denial
from plugin.gate import Gate

ACTIVATE = b'{"Implements":["authz"]}'
ALLOW = b'{"Allow":true}'
#: `struct ucred` of SO_PEERCRED: pid, uid, gid.
_PEER = struct.Struct("3i")


def create_app(gate: Gate) -> Flask:
    """The application that answers for every repository of one machine.

    dockerd takes a reply only with HTTP status 200: another status reaches the user as a failure of the
    plugin, without the message. So a denial, an exception included, is always 200 with ``Allow`` false.
    """
    app = Flask(__name__)

    @app.post("/Plugin.Activate")
    def activate() -> Response:
        return _reply(ACTIVATE)

    @app.post("/AuthZPlugin.AuthZReq")
    def authorize_request() -> Response:
        connection = request.environ["gunicorn.socket"]
        if _peer_uid(connection) != 0:
            return _answer(Decision(False, _NOT_ROOT))
        return _answer(gate.judge(connection.getsockname(), request.get_data(cache=False)))

    @app.post("/AuthZPlugin.AuthZRes")
    def authorize_response() -> Response:
        # The engine has acted already: there is nothing left to refuse, and the repeated body is not read.
        return _reply(ALLOW)

    @app.errorhandler(Exception)
    def closed(error: Exception) -> Response:
        app.logger.exception("the gate failed; the request is denied", exc_info=error)
        return _answer(Decision(False, _FAILED))

    return app


_NOT_ROOT = Denial(
    "unknown-repository",
    "only a Docker daemon that runs as root may ask this gate",
    "Point authorization-plugins of the repository's daemon.json at the gate",
)
_FAILED = Denial(
    "unreadable-request",
    "the gate failed while it judged this request",
    "Tell the operator of this machine: the reason is in the gate's log",
)


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1])


def _answer(decision: Decision) -> Response:
    if decision.denial is None:
        return _reply(ALLOW)
    return _reply(json.dumps({"Allow": False, "Msg": decision.denial.text}).encode())


def _reply(body: bytes) -> Response:
    return Response(body, mimetype="application/json")

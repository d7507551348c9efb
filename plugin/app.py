"""The gate's front door: the three routes of Docker's authorization protocol, and nothing else."""

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from plugin.answers import ACTIVATE, ALLOW, CONTENT_TYPE, FAILED, NO_CALL, NOT_ROOT, TOO_LARGE, answer
from plugin.door import Judge, is_trusted
from plugin.wire import MESSAGE_LIMIT


def create_app(judge: Judge) -> Flask:
    """The application that answers for every repository of one machine.

    dockerd's own calls are answered by the worker, in the same way and without a WSGI request
    (`plugin.door`); these routes answer whoever speaks a less usual HTTP.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MESSAGE_LIMIT

    @app.post("/Plugin.Activate")
    def activate() -> Response:
        return _reply(ACTIVATE)

    @app.post("/AuthZPlugin.AuthZReq")
    def authorize_request() -> Response:
        connection = request.environ["gunicorn.socket"]
        if not is_trusted(connection):
            return _reply(answer(NOT_ROOT))
        return _reply(judge(connection.getsockname(), request.get_data(cache=False), lambda: None))

    @app.post("/AuthZPlugin.AuthZRes")
    def authorize_response() -> Response:
        # The engine has acted already: there is nothing left to refuse, and the repeated body is not read.
        return _reply(ALLOW)

    @app.errorhandler(RequestEntityTooLarge)
    def too_large(_error: RequestEntityTooLarge) -> Response:
        return _reply(answer(TOO_LARGE))

    @app.errorhandler(HTTPException)
    def no_such_call(_error: HTTPException) -> Response:
        return _reply(answer(NO_CALL))  # and no line in the log: a peer could write as many as it likes

    @app.errorhandler(Exception)
    def closed(error: Exception) -> Response:
        app.logger.exception("the gate failed; the request is denied", exc_info=error)
        return _reply(answer(FAILED))

    return app


def _reply(body: bytes) -> Response:
    return Response(body, mimetype=CONTENT_TYPE)

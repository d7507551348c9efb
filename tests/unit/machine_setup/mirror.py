"""A web server on the loopback address that has what NVIDIA's package repository has for set-up: its key."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBFloM+gBEAC\n-----END PGP PUBLIC KEY BLOCK-----\n"


@contextmanager
def mirror(answer: bytes = KEY) -> Iterator[str]:
    """The address of a server that answers `answer` at /gpgkey."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/gpgkey" else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# A port that nothing listens on: the internet of a machine that has none.
NOWHERE = "http://127.0.0.1:9"

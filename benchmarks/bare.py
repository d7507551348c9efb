"""The cheapest plugin there can be: a socket loop that parses and allows everything.

    python -m benchmarks.bare PATH [--parse-all]

One thread for each connection, no HTTP beyond the length of the body, no decision. It parses what the gate
parses, the message about a request and the body in it; with --parse-all also the message about the response,
which repeats them, as a plugin must that does not know better.
"""

import binascii
import json
import socket
import sys
import threading

# To Plugin.Activate as well, so that dockerd takes it for a plugin.
_ANSWER = b'{"Allow":true,"Implements":["authz"]}'
_ALLOW = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_ANSWER)
    + _ANSWER
)


def serve(path: str, parsed: bytes) -> None:
    """Answer on the unix socket `path` until the process is killed; parse calls that begin with `parsed`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(4096)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_converse, args=(connection, parsed), daemon=True).start()


def _converse(connection: socket.socket, parsed: bytes) -> None:
    with connection:
        while True:
            data = connection.recv(16384)
            if not data:
                return
            head, _, body = data.partition(b"\r\n\r\n")
            missing = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]) - len(body)
            parts = [body]
            while missing:
                parts.append(connection.recv(min(missing, 262144)))
                missing -= len(parts[-1])
            if head.startswith(parsed):
                message = json.loads(b"".join(parts).decode())
                if encoded := message.get("RequestBody"):
                    json.loads(binascii.a2b_base64(encoded, strict_mode=True).decode())
            connection.sendall(_ALLOW)


if __name__ == "__main__":
    serve(sys.argv[1], b"POST /" if sys.argv[2:] else b"POST /AuthZPlugin.AuthZReq")

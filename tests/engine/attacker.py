"""A tenant who tries everything: real clients and raw bytes on the socket of a daemon's API."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from spec.layout import Layout
from tests.engine.daemon import Daemon
from tests.engine.image import IMAGE
from tests.engine.stand_in import Node, gpu_nodes

REACHED = "REACHED"
Headers = Sequence[tuple[str, str]]
JSON: Headers = (("Content-Type", "application/json"),)

# Writes to a setting of the whole machine what it holds already.
WRITES_CORE_PATTERN = 'v=$(cat {0}/kernel/core_pattern); echo "$v" >{0}/kernel/core_pattern && echo REACHED'

# The first denial of an attempt is the one that counts.
_REFERENCE = re.compile(r"gate log ([0-9a-f]{8})")
_ID = re.compile(r'"Id":"([0-9a-f]{64})"')


def logged(layout: Layout, said: str) -> dict[str, str]:
    """The line of the decision log that the denial in `said` names; it is written soon after the answer."""
    reference = _REFERENCE.search(said)
    assert reference, said[-2000:]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        text = layout.gate_log.read_text() if layout.gate_log.exists() else ""
        for line in text.splitlines(keepends=True):
            # A line without its end is still being written.
            if f'"{reference[1]}"' in line and line.endswith("\n"):
                return json.loads(line)  # type: ignore[no-any-return]
        time.sleep(0.02)
    raise AssertionError(f"no line {reference[1]} in the log")


def opens(node: str) -> str:
    """A command that says REACHED if the container can open the device `node`."""
    return f"open-device {node} && echo {REACHED}"


def writes_setting(directory: str = "/proc/sys") -> str:
    """A command that says REACHED if the container can change a setting of the whole machine."""
    return WRITES_CORE_PATTERN.format(directory)


@dataclass(frozen=True)
class Attacker:
    """Somebody with the API socket of `daemon` on the machine of `layout`, with `files` of their own."""

    daemon: Daemon
    layout: Layout
    files: Path
    gpu: Node = field(default_factory=lambda: gpu_nodes()[0])

    def docker(self, *arguments: str) -> str:
        """What the docker command says, one way or the other."""
        done = self.daemon.docker(*arguments, check=False)
        return done.stdout + done.stderr

    def cli_run(self, *options: str, do: str) -> str:
        """``docker run`` with `options`, and the shell command `do`."""
        return self.docker("run", "--rm", *options, IMAGE, "sh", "-c", do)

    def raw(self, head: str, body: bytes = b"", headers: Headers = JSON, length: str | None = None) -> str:
        """The daemon's whole answer to a request written byte by byte; `head` is its method and target."""
        lines = [f"{head} HTTP/1.1", "Host: docker", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        if length is None:
            length = str(len(body))
        if length:
            lines.append(f"Content-Length: {length}")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.daemon.socket))
            answer = b""
            # A daemon that refuses does not always read the body to its end, and its answer is there already.
            with contextlib.suppress(ConnectionError):
                connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65536):
                    answer += piece
        return answer.decode("utf-8", "replace")

    def post(self, target: str, body: object = None) -> str:
        """The answer to a plain POST with a JSON body."""
        return self.raw(f"POST {target}", b"" if body is None else json.dumps(body).encode())

    def run_raw(self, head: str, body: bytes, headers: Headers = JSON, length: str | None = None) -> str:
        """Create a container by raw bytes, run it, and give back everything that was said."""
        return self.finish(self.raw(head, body, headers, length))

    def run(self, host_config: dict[str, object], do: str) -> str:
        """Create a container with this HostConfig by the API, run `do` in it."""
        return self.run_raw("POST /containers/create", self.body(do, HostConfig=host_config))

    def body(self, do: str, **fields: object) -> bytes:
        """A create body for the shell command `do`."""
        return json.dumps({"Image": IMAGE, "Cmd": ["sh", "-c", do], **fields}).encode()

    def finish(self, created: str) -> str:
        """Start the container that `created` tells of, wait for its end, and add what it said."""
        found = _ID.search(created)
        if not found:
            return created
        identity = found[1]
        said = [created, self.raw(f"POST /containers/{identity}/start")]
        if " 204 " in said[-1]:
            said.append(self.raw(f"POST /containers/{identity}/wait"))
        logs = urlencode({"stdout": 1, "stderr": 1})
        said.append(self.raw(f"GET /containers/{identity}/logs?{logs}"))
        self.raw(f"DELETE /containers/{identity}?force=1&v=1")
        return "\n".join(said)

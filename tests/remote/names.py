"""What the tests put on machines: devices, repositories, and stand-ins for a `renet` that misbehaves."""

import json

from tests.remote.machine import Machine, Operator

SPEC = json.dumps(
    {
        "cdiVersion": "0.6.0",
        "kind": "example.com/gpu",
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/{node}"}]}}
            for name, node in (("0", "null"), ("1", "zero"))
        ],
    }
)

#: Shows the words that it was started with, as an answer of `renet`.
RECORDER = """#!/usr/local/bin/python3
import json, sys
print(json.dumps({"ok": True, "data": {"argv": sys.argv[1:], "stdin": sys.stdin.read()}}))
"""


def put_devices(there: Machine) -> None:
    """Give the machine the devices ``example.com/gpu=0`` and ``=1``."""
    there.put("/etc/cdi/example.json", SPEC)


def put_renet(there: Machine, text: str, path: str = "/usr/local/bin/renet") -> None:
    """Put another `renet` in the place of the machine's."""
    there.run("rm", "-f", path)
    there.put(path, text, 0o755)


def add(
    somebody: Operator, name: str, there: Machine, user: str = "gpuops", options: tuple[str, ...] = ()
) -> None:
    """Make the machine `there` known to `somebody` as `name`."""
    somebody.know(f"{name}.test", there, user, options)
    done = somebody.rdc("machine", "add", name, "--host", f"{name}.test")
    assert done.returncode == 0, done


def adopt(somebody: Operator, ref: str) -> None:
    """Register a repository; no daemon needs to run for that."""
    slug = ref.partition("@")[0].replace(":", ".")
    files = ("--socket", f"/run/rediacc/docker-{slug}.sock", "--data-root", f"/srv/docker-{slug}")
    done = somebody.rdc("repo", "adopt", ref, *files)
    assert done.returncode == 0, done

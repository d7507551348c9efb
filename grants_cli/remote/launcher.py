"""What runs first on the machine: find `renet` (or a Python), become root, and give way to it.

This file is sent as text and run by whatever ``python3`` the machine has, so it uses the standard library
alone and no syntax newer than Python 3.6.2. It gets one argument, base64 of a JSON object:

- ``argv``: the words of the command, after the program's own name
- ``program``: ``renet``, ``python`` (the newest one that is 3.11 or newer), or a list of words
- ``oldest``: the oldest version of `renet` that the sender can talk to

Words never meet a shell on the machine, and sudo logs the command as it is. What hinders it is answered as
`renet` itself answers errors: one JSON object on stdout.
"""

import base64
import json
import os
import re
import shutil
import sys
from typing import Any, NoReturn

FAILED = 14
RENET = "/usr/local/bin/renet"
_RELEASE = re.compile(r"/opt/rediacc/(\d+(?:\.\d+)*)[^/]*/")


def main() -> None:
    """Become the command that the order names."""
    order = json.loads(base64.b64decode(sys.argv[-1]).decode())
    words = program(order) + order["argv"]
    if os.geteuid() != 0:
        sudo = shutil.which("sudo")
        if sudo is None:
            refuse(
                "missing-sudo",
                "there is no sudo, and this login is not root",
                "install sudo there, or log in as root",
            )
        # Messages of sudo are told apart by their English form.
        os.environ["LC_ALL"] = "C.UTF-8"
        words = [sudo, "-n", "--", *words]
    sys.stderr.flush()
    os.execv(words[0], words)  # noqa: S606 - that it needs no shell is the point


def program(order: "dict[str, Any]") -> "list[str]":
    """The words that start the program of `order`; does not return where it cannot be had."""
    wanted = order["program"]
    if wanted == "python":
        return [python()]
    words = [renet(order["oldest"])] if wanted == "renet" else list(wanted)
    # sudo clears the environment, so the layout's variables travel as options.
    for variable, option in (("REDIACC_ROOT", "--root"), ("REDIACC_PLUGIN_DIR", "--plugin-dir")):
        if os.environ.get(variable):
            words += [option, os.environ[variable]]
    return words


def renet(oldest: str) -> str:
    """The path of `renet`, of version `oldest` or newer where its path tells."""
    path = RENET if os.access(RENET, os.X_OK) else shutil.which("renet")
    if path is None:
        refuse("missing-renet", "renet is not installed there", "rdc machine setup {machine}")
    match = _RELEASE.match(os.path.realpath(path))
    if match and numbers(match.group(1)) < numbers(oldest):
        text = "renet there is version {}; this rdc needs {} or newer".format(match.group(1), oldest)
        refuse("old-renet", text, "rdc machine setup {machine}")
    return path


def python() -> str:
    """The path of a Python that is new enough for `renet`."""
    if sys.version_info >= (3, 11):
        return sys.executable
    for minor in range(20, 10, -1):
        path = shutil.which("python3.%d" % minor)
        if path:
            return path
    found = "python3 is %d.%d" % sys.version_info[:2]
    return refuse("missing-python", "it has no Python 3.11", "install python3.11 there (%s)" % found)


def numbers(version: str) -> "list[int]":
    """The version as numbers that compare."""
    return [int(number) for number in version.split(".")]


def refuse(code: str, message: str, hint: str) -> "NoReturn":
    """Answer with an error in the form of `renet`, and end."""
    print(json.dumps({"ok": False, "error": {"code": code, "message": message, "hint": hint}}))
    sys.exit(FAILED)


if __name__ == "__main__":
    main()

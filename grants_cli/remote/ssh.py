"""OpenSSH as the system has it: its options for our calls, and what its messages mean.

The user's configuration, agent, known hosts and jump hosts apply. ``BatchMode`` keeps it from asking
anything: a question would hide behind our own output.
"""

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from grants_cli.remote.errors import (
    HostKeyChangedError,
    HostKeyUnknownError,
    LoginRefusedError,
    LostConnectionError,
)
from grants_cli.remote.machines import Machine
from spec.errors import RediaccError, UnreachableError

#: Another ssh, with options, as GIT_SSH_COMMAND does it for git.
COMMAND_VARIABLE = "REDIACC_SSH"
#: ssh's own failure, as opposed to the remote command's (ssh(1), EXIT STATUS).
FAILED = 255

#: Fixed: nothing of ours asks, listens, forwards, or runs another command than ours.
_FIXED = {
    "BatchMode": "yes",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    # What went wrong is read from its messages.
    "LogLevel": "INFO",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
}
#: Ours unless the user's configuration says otherwise: a dead machine is noticed within 15 seconds.
_DEFAULTS = {"ConnectTimeout": "10", "ServerAliveInterval": "5", "ServerAliveCountMax": "3"}
_UNSET = {"connecttimeout": {"none", "0"}, "serveraliveinterval": {"0"}, "serveralivecountmax": {"3"}}
_REUSE_SECONDS = 60
# sun_path holds 108 bytes; ssh first binds a name that is 17 longer, and %C is 40 hexadecimal digits.
_LONGEST_DIRECTORY = 108 - 1 - 40 - 17 - 1


def command(machine: Machine, line: str) -> list[str]:
    """The words that run the shell line `line` on `machine`."""
    options = dict(_FIXED)
    configured = _configured(machine)
    options |= {
        key: value
        for key, value in _DEFAULTS.items()
        if configured.get(key.lower(), "0") in {*_UNSET[key.lower()], "0"}
    }
    # A user who shares connections already, perhaps because a login asks for more than a key, keeps theirs.
    if "controlpath" not in configured and (directory := control_directory()):
        options |= {
            "ControlMaster": "auto",
            "ControlPath": f"{directory}/%C",
            "ControlPersist": str(_REUSE_SECONDS),
        }
    words = [f"-o{key}={value}" for key, value in options.items()]
    return [*ssh(), *words, *_address(machine), line]


def ssh() -> list[str]:
    """The words that start ssh."""
    return shlex.split(os.environ.get(COMMAND_VARIABLE, "")) or ["ssh"]


def _address(machine: Machine) -> list[str]:
    port = [f"-p{machine.port}"] if machine.port else []
    return [*port, "--", machine.destination]


@cache
def _configured(machine: Machine) -> Mapping[str, str]:
    """What the user's configuration says for `machine`, by lower-case key; nothing where ssh cannot say."""
    try:
        result = subprocess.run(
            [*ssh(), "-G", *_address(machine)], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition(" ") for line in result.stdout.splitlines())
    return {key: value for key, _, value in pairs}


def control_directory() -> Path | None:
    """A short directory that is ours alone, for the sockets of shared connections; `None` without one."""
    for base in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), "/tmp")):  # noqa: S108 - checked below
        directory = Path(base) / f"rediacc-ssh-{os.geteuid()}"
        if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
            continue
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.lstat()
        except OSError:
            continue
        # Whoever owns a control socket reads what we send: a directory that another made is not used.
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return directory
    return None


def explain(machine: Machine, messages: str) -> RediaccError:
    """The error that ssh's `messages` describe, after it failed to reach `machine` or to stay connected."""
    login = shlex.join(["ssh", *_address(machine)])
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in messages:
        place = re.search(r"Offending .*key in (\S+):(\d+)", messages)
        where = f", line {place[2]} of {place[1]}" if place else ""
        name = f"[{machine.host}]:{machine.port}" if machine.port else machine.host
        return HostKeyChangedError(
            f"machine {machine}: the host key is not the one known for it{where}",
            "somebody may be in between. Only if the machine was installed anew: "
            f"{shlex.join(['ssh-keygen', '-R', name])}, then {login}",
        )
    if "Host key verification failed" in messages:
        return HostKeyUnknownError(
            f"machine {machine}: its host key is not known here",
            f"compare the fingerprint and accept it once: {login}",
        )
    if re.search(r"Permission denied|Too many authentication failures|No supported authentication", messages):
        return LoginRefusedError(
            f"machine {machine}: it refuses the login{f' as {machine.user}' if machine.user else ''}",
            f"put a key of yours into the agent or in its authorized_keys (ssh-copy-id), and try: {login}",
        )
    said = _last_line(messages)
    if _BEFORE.search(messages):
        return UnreachableError(
            f"machine {machine} cannot be reached: {said}", f"check the address, and try: {login}"
        )
    return LostConnectionError(
        f"machine {machine}: the connection was lost{f' ({said})' if said else ''}", f"try: {login} true"
    )


#: Failures that come before a session exists, so that nothing was run.
_BEFORE = re.compile(
    r"ssh: connect to host|Could not resolve hostname|kex_exchange_identification|banner exchange|"
    r"Bad configuration option|stdio forwarding failed|terminating, \d+ bad configuration|"
    r"no matching .* found|Connection timed out during|UNKNOWN port|Bad owner or permissions|"
    r"hostname contains invalid characters"
)
_NOISE = re.compile(
    r"^(Warning: Permanently added|ControlSocket .* already exists|mux_client|\*\* |Control socket connect)"
)


def is_noise(line: str) -> bool:
    """Whether `line` is ssh talking of what concerns nobody."""
    return bool(_NOISE.match(line))


def _last_line(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip() and not is_noise(line)]
    return lines[-1] if lines else ""

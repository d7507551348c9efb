"""What a copy of a repository's data must forget: whose it was, and what ran.

A fork begins quiet: no container of it runs or starts by itself, and each starts when somebody asks for it
and the fork has what it needs. Its daemon has an identity of its own.
"""

import json
import shutil
from pathlib import Path

from spec.errors import CommandFailedError
from spec.files import replace_file

#: What belongs to the original alone: its identity, its swarm, the networks whose bridges it has on this
#: machine, and what was under way. dockerd makes each anew.
_OWN = ("engine-id", "swarm", "network", "tmp", "docker.pid")


def make_own(old_home: Path, new_home: Path) -> None:
    """Turn the copy of `old_home` at `new_home` into a repository of its own.

    Raises `CommandFailedError` for a container whose configuration cannot be read.
    """
    data_root = new_home / "docker"
    for name in _OWN:
        path = data_root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in sorted((data_root / "containers").glob("*/*.json")):
        _rewrite(path, str(old_home), str(new_home))
    for path in sorted((data_root / "containers").glob("*/config.v2.json")):
        _quiet(path)


def _rewrite(path: Path, old: str, new: str) -> None:
    """Let the paths in a container's file name the new place."""
    _save(path, _moved(_load(path), old, new))


def _moved(value: object, old: str, new: str) -> object:
    match value:
        case str() if value == old or value.startswith(f"{old}/"):
            return new + value.removeprefix(old)
        # HostConfig.Binds: source:target[:options]
        case str() if value.startswith(f"{old}:"):
            return new + value.removeprefix(old)
        case list():
            return [_moved(item, old, new) for item in value]
        case dict():
            return {key: _moved(item, old, new) for key, item in value.items()}
        case _:
            return value


def _quiet(path: Path) -> None:
    """Let the container not run, nor start with the daemon.

    dockerd starts a container whose restart policy says so if it has been started before (moby daemon.go,
    `HasBeenStartedBefore`): the policy stays, and counts again from the first start on.
    """
    document = _load(path)
    if not isinstance(document, dict):
        raise _unreadable(path, "it is no object")
    state = document.get("State")
    if isinstance(state, dict):
        state.update(Running=False, Paused=False, Restarting=False, Pid=0)
    document["HasBeenStartedBefore"] = False
    _save(path, document)


def _load(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error


def _save(path: Path, document: object) -> None:
    mode = path.stat().st_mode & 0o777
    replace_file(path, json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), mode)


def _unreadable(path: Path, problem: str) -> CommandFailedError:
    return CommandFailedError(
        f"{path} is no container that we can carry over: {problem}",
        "remove that container from the original, then fork again",
    )

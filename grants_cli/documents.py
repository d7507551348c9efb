"""Reading and encoding the machine's JSON files: trusted owner, known version, valid by the schema.

The validator is fastjsonschema: the file of 1,000 repositories with 5 grants each takes it 20 ms, and
jsonschema 190 ms, which is more than a whole command may take. (jsonschema-rs takes 1 ms, but no Linux
distribution packages it.)
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import cast

import fastjsonschema

from spec.errors import UntrustedError

VERSION = 1


class Kind(Enum):
    """The files of this package, by the name of their schema."""

    GRANTS = "grants"
    REPOSITORIES = "repositories"
    INVENTORY = "inventory"


def schema(kind: Kind) -> dict[str, object]:
    """The JSON schema of `kind`, as shipped."""
    text = files("grants_cli.schemas").joinpath(f"{kind.value}.json").read_text(encoding="utf-8")
    return cast(dict[str, object], json.loads(text))


@cache
def _validator(kind: Kind) -> Callable[[object], object]:
    validator: Callable[[object], object] = fastjsonschema.compile(schema(kind), use_default=False)
    return validator


def read_document(path: Path, kind: Kind) -> dict[str, object] | None:
    """The document at `path`, or `None` where there is no file.

    Raises `UntrustedError` when it is a symbolic link or no regular file, belongs to somebody other than
    root (or us), can be written by others, is no JSON, has an unknown version or fails its schema.
    """
    content = _read_trusted(path)
    return None if content is None else decode(content, kind, str(path))


def decode(content: bytes, kind: Kind, source: str) -> dict[str, object]:
    """The document of `kind` that `content` spells; raises `UntrustedError` naming `source`."""
    try:
        document: object = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise untrusted(source, f"it is no JSON that we can read: {error}") from error
    if not isinstance(document, dict):
        raise untrusted(source, "it is not a JSON object")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise untrusted(source, f"its version is {version!r}, and this program knows version {VERSION} only")
    _check(document, kind, source)
    return document


def encode(document: dict[str, object], kind: Kind, changed: dict[str, object] | None = None) -> bytes:
    """`document` as the file has it; raises `UntrustedError` rather than write what it would not read.

    `changed` is a document of the parts that did not come from a file which was checked: where it is given,
    it alone is checked.
    """
    _check(document if changed is None else changed, kind, f"the new {kind.value}.json")
    if kind is Kind.INVENTORY:  # people read it, and a dry run shows its difference line by line
        return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def untrusted(source: object, problem: str) -> UntrustedError:
    """The error for a file that must not be believed, nor overwritten."""
    return UntrustedError(
        f"{source} cannot be trusted: {problem}",
        "renet gpu check says what is wrong; renet gpu restore brings back the newest good copy",
    )


def _check(document: dict[str, object], kind: Kind, source: str) -> None:
    try:
        _validator(kind)(document)
    except fastjsonschema.JsonSchemaValueException as error:
        where = "".join(f"/{part}" for part in error.path[1:]) or "/"
        what = error.message.removeprefix(error.name or "").strip()
        raise untrusted(source, f"at {where}: {what}") from error


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def _read_trusted(path: Path) -> bytes | None:
    try:
        # O_NONBLOCK: opening a FIFO that somebody left here must not hang the gate.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise UntrustedError(
            f"{path} cannot be read: {error.strerror}", "only root may read it: sudo renet …"
        ) from error
    except OSError as error:
        problem = (
            "it is a symbolic link" if error.errno == errno.ELOOP else f"it cannot be read: {error.strerror}"
        )
        raise untrusted(path, problem) from error
    try:
        _check_owner(path, os.fstat(descriptor))
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read()
    except OSError as error:
        raise untrusted(path, f"it cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _check_owner(path: Path, state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise untrusted(path, "it is no regular file")
    if state.st_uid not in {0, os.geteuid()}:
        raise untrusted(path, f"it belongs to user {state.st_uid}, not to root")
    if state.st_mode & 0o022:
        raise untrusted(path, f"others than its owner may write it (mode {stat.S_IMODE(state.st_mode):04o})")

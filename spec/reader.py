"""One spec file: its bytes -> a valid `Spec`, or every reason why it is none."""

import os
import stat
from dataclasses import replace
from pathlib import Path

from spec.decode import decode_spec, is_null
from spec.document import MAX_BYTES, DocumentError, Mapping, Node, Sequence, compose
from spec.errors import UntrustedError
from spec.mappings import entries, fold
from spec.model import Spec
from spec.problems import Problem, Where
from spec.validate import validate


class InvalidSpecError(UntrustedError):
    """A spec that the engine would not take; `problems` says why, most telling first."""

    code = "invalid-spec"

    def __init__(self, problems: list[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}", "`renet cdi validate FILE` lists every problem of a spec")
        self.problems = tuple(problems)


def parse_spec(data: bytes) -> Spec:
    """The spec that `data` is (YAML or JSON: both go through the same parser, as in the engine).

    Raises `InvalidSpecError`.
    """
    try:
        root = compose(data)
    except DocumentError as error:
        raise InvalidSpecError([Problem(error.code, error.message, "", (), error.line)]) from error
    # The library decodes null into nothing, and says that the file is empty.
    if root is None or is_null(root):
        raise InvalidSpecError([Problem("empty-document", "nothing in the file", "a spec is a mapping")])
    spec, problems = decode_spec(root)
    if not problems:
        problems = [replace(problem, line=_line(root, problem.where)) for problem in validate(spec)]
    if problems:
        raise InvalidSpecError(problems)
    return spec


def read_spec(path: Path) -> Spec:
    """The spec in the file `path`; raises `InvalidSpecError`, also for a file that cannot be read."""
    try:
        return parse_spec(read_bounded(path))
    except InvalidSpecError as error:
        raise InvalidSpecError([problem.at(path) for problem in error.problems]) from error
    except OSError as error:
        problem = Problem("unreadable", f"cannot be read: {error.strerror}", "", file=path)
        raise InvalidSpecError([problem]) from error


def read_bounded(path: Path) -> bytes:
    """The bytes of a regular file, at most one more than a spec may have.

    A FIFO or device in a spec directory must not stop us, and a file that is too large is not read to
    its end. Raises `OSError`, and `InvalidSpecError` for what is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidSpecError([Problem("unreadable", "no regular file", "a spec is a regular file")])
        return file.read(MAX_BYTES + 1)


def _line(root: Node, where: Where) -> int:
    """The line of the value at `where`, or of the nearest node around it."""
    node = root
    for part in where:
        inner: Node | None = None
        if isinstance(node, Sequence) and isinstance(part, int):
            inner = node.items[part]
        elif isinstance(node, Mapping):
            wanted = fold(str(part))
            inner = next((value for key, _, value in entries(node) if fold(key) == wanted), None)
        if inner is None:
            break
        node = inner
    return node.line

"""Every message of the product, read from where it is raised: the table behind ``docs/messages.md``.

A message is the first text of an error or a denial, a hint the second. Parts that only a run knows are shown
in capitals, by the name that the code gives them.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import grants_cli
import machine_setup
import plugin
import spec

PACKAGES = (spec, grants_cli, plugin, machine_setup)
ROOT_ERROR = "RediaccError"
# What makes a denial: its rule, what is refused, and what to do.
DENIALS = {"Denial": 3, "relaxable": 2}
UNKNOWN = "…"


@dataclass(frozen=True, order=True)
class Message:
    """What is said and what to do; `code` is an error's code, or a denial's rule."""

    code: str
    text: str
    hint: str


def messages() -> tuple[list[Message], list[Message]]:
    """The errors of the commands, and the denials of the gate: each once, sorted."""
    # Wherever they were imported from: a checkout, or what was installed.
    places = [Path(package.__file__).parent for package in PACKAGES if package.__file__]
    trees = [ast.parse(path.read_text()) for place in places for path in sorted(place.rglob("*.py"))]
    codes = _error_codes(trees)
    errors, denials = set[Message](), set[Message]()
    for tree in trees:
        for call, scopes in _calls(tree, ()):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name in codes and call.args:
                errors |= {Message(codes[name], *pair) for pair in _pairs(call, 0, scopes)}
            elif len(call.args) >= DENIALS.get(name, len(call.args) + 1):
                for rule in _texts(call.args[0], scopes):
                    hinted = DENIALS[name] > 2
                    denials |= {Message(rule, *pair) for pair in _pairs(call, 1, scopes, hinted=hinted)}
    return sorted(errors), sorted(denials)


def _error_codes(trees: Iterable[ast.Module]) -> dict[str, str]:
    """The code of every error class, its parents' where it has none of its own."""
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    codes: dict[str, str] = {}
    for name in classes:
        lineage = [name]
        while lineage[-1] in classes and classes[lineage[-1]].bases:
            lineage.append(ast.unparse(classes[lineage[-1]].bases[0]).rpartition(".")[2])
        if ROOT_ERROR in lineage:
            codes[name] = next(code for parent in lineage if (code := _own_code(classes[parent])))
    return codes


def _own_code(node: ast.ClassDef) -> str:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code":
            return str(ast.literal_eval(statement.value))
    return ""


def _calls(node: ast.AST, scopes: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    if isinstance(node, (ast.Module, ast.FunctionDef)):
        scopes = (node, *scopes)
    if isinstance(node, ast.Call):
        yield node, scopes
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, scopes)


def _pairs(
    call: ast.Call, first: int, scopes: Sequence[ast.AST], *, hinted: bool = True
) -> Iterator[tuple[str, str]]:
    named = [keyword.value for keyword in call.keywords if keyword.arg in {"hint", "fix"}]
    hints = [*call.args[first + 1 : first + 2], *named] if hinted else []
    says = _texts(call.args[first], scopes)
    for text, hint in product(says, _texts(hints[0], scopes) if hints else [""]):
        # A message that is handed through was found where it was written.
        if text.strip(f"{UNKNOWN} ").upper() != text.strip(f"{UNKNOWN} "):
            yield text, hint


def _texts(node: ast.expr, scopes: Sequence[ast.AST]) -> list[str]:
    """What the expression may say."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            spoken = [_texts(part, scopes) for part in parts]
            return ["".join(choice) for choice in product(*spoken)]
        case ast.FormattedValue(value=value):
            # Only a choice between texts is spelled out: a name is a name.
            return _texts(value, scopes) if isinstance(value, ast.IfExp) else [_placeholder(value)]
        case ast.IfExp(body=one, orelse=other):
            return [*_texts(one, scopes), *_texts(other, scopes)]
    return (_assigned(node.id, scopes) if isinstance(node, ast.Name) else []) or [_placeholder(node)]


def _assigned(name: str, scopes: Sequence[ast.AST]) -> list[str]:
    """What the nearest scope assigns to `name`, where that is text."""
    for scope in scopes:
        values = [
            statement.value
            for statement in ast.walk(scope)
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name
        ]
        if values:
            return [text for value in values for text in _texts(value, scopes[1:])]
    return []


def _placeholder(node: ast.expr) -> str:
    """The name of a part that only a run knows."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").replace("_", "-").upper()
        case ast.Call(func=ast.Name(id="str" | "repr" | "len"), args=[inner]) | ast.Subscript(value=inner):
            return _placeholder(inner)
        case ast.Call(func=function):
            return _placeholder(function)
    return UNKNOWN

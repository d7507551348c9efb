"""gate.yaml: what the operator allows a repository beyond the host rules, and what is logged.

A mistake in the file never opens anything: nothing of it counts then, and `renet gate check`, the gate's
start and its log say what is wrong.
"""

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import cast

import fastjsonschema
import yaml

from plugin.rules.relax import ALWAYS
from spec.errors import UntrustedError
from spec.files import CachedFile

Allowed = Mapping[str, frozenset[str]]
_NOTHING: Allowed = MappingProxyType({})


@dataclass(frozen=True)
class Options:
    """The operator's options. `problem` is what is wrong with the file; then everything is at its default."""

    log_all: bool = False
    allow: Mapping[str, Allowed] = field(default_factory=dict)
    problem: str = ""

    def allowed(self, ref: str) -> Allowed:
        """What the repository `ref` may do beyond the host rules, by rule."""
        return self.allow.get(ref, _NOTHING)


def cached_options(path: Path) -> CachedFile[Options]:
    """The options for a long-lived reader, which pays for the file only when it has changed."""
    return CachedFile(path, lambda: read_or_default(path))


def read_or_default(path: Path) -> Options:
    """The options in `path`; all defaults where it is missing or wrong, with the `problem` in the latter
    case.
    """
    try:
        return read_options(path)
    except UntrustedError as error:
        return Options(problem=error.message)


def read_options(path: Path) -> Options:
    """The options in `path`, all defaults where there is no file. Raises `UntrustedError`."""
    try:
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _wrong(path, "somebody other than its owner can write to it")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Options()
    except (OSError, UnicodeError) as error:
        raise _wrong(path, f"it cannot be read: {error}") from error
    return parse_options(text, str(path))


def parse_options(text: str, source: str) -> Options:
    """The options that `text` spells; raises `UntrustedError` naming `source`."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader that refuses a key given twice
    except (yaml.YAMLError, RecursionError) as error:
        raise _wrong(source, f"it is no YAML that we can read: {' '.join(str(error).split())}") from error
    if document is None:
        return Options()
    try:
        _validator()(document)
    except fastjsonschema.JsonSchemaValueException as error:
        raise _wrong(source, error.message.replace("data", "the file", 1)) from error
    repositories = cast("dict[str, dict[str, dict[str, object]]]", document.get("repositories") or {})
    allow = {
        ref: MappingProxyType({rule: _names(value) for rule, value in entry["allow"].items()})
        for ref, entry in repositories.items()
    }
    return Options(document.get("log") == "all", MappingProxyType(allow))


def schema() -> dict[str, object]:
    """The JSON schema of gate.yaml, as shipped."""
    text = files("plugin.schemas").joinpath("gate.json").read_text(encoding="utf-8")
    return cast("dict[str, object]", json.loads(text))


@cache
def _validator() -> Callable[[object], object]:
    validator: Callable[[object], object] = fastjsonschema.compile(schema(), use_default=False)
    return validator


def _names(value: object) -> frozenset[str]:
    return frozenset({ALWAYS}) if value is True else frozenset(cast("list[str]", value))


def _wrong(source: object, problem: str) -> UntrustedError:
    return UntrustedError(
        f"{source} is not used: {problem}",
        "renet gate check reads it again; docs/security.md shows what it may say",
    )


class _Loader(yaml.SafeLoader):
    """YAML whose keys are text, each given once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """The mapping at `node`; raises `yaml.YAMLError` for a key that is no text or given twice."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if not all(isinstance(key, str) for key in keys):
            raise yaml.constructor.ConstructorError(None, None, "a key is no text", node.start_mark)
        if len(set(keys)) != len(keys):
            raise yaml.constructor.ConstructorError(None, None, "a key is given twice", node.start_mark)
        return super().construct_mapping(node, deep)

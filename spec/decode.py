"""A tree of nodes -> the values of `spec.model`, as the engine's decoder converts them.

The reference library turns YAML into JSON and decodes that strictly: unknown fields and wrong types are
errors, the case of a field's name does not matter, a number or boolean becomes text where a field holds
text, and a whole float is an integer. A null is the same as nothing, except as an element of a list of
objects: there the library crashes, and we refuse it.
"""

from collections.abc import Callable
from typing import Any

from spec.document import DocumentError, Mapping, Node, Scalar, Sequence
from spec.mappings import entries, fold
from spec.model import (
    NO_EDITS,
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from spec.problems import Problem, Where
from spec.scalars import Value, as_text, resolve

Decode = Callable[["Decoder", Node, Where], Any]

_INT64 = (-(2**63), 2**63 - 1)
_UINT32 = (0, 2**32 - 1)
_LONGEST_SHOWN = 60
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_NULL_TAG = "tag:yaml.org,2002:null"


class Decoder:
    """Decodes one tree and collects what is wrong with it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, code: str, found: str, rule: str, where: Where, line: int) -> None:
        """Take note of a problem."""
        self.problems.append(Problem(code, found, rule, where, line))

    def scalar(self, node: Node, where: Where, expected: str, code: str = "wrong-type") -> Value:
        """The value of the scalar `node`; a problem and null if it is none."""
        if not isinstance(node, Scalar):
            self.report(code, describe(node), f"must be {expected}", where, node.line)
            return None
        try:
            return resolve(node.text, node.tag, node.plain)
        except ValueError as error:
            self.report("not-yaml", f"{_shown(node.text)} {error}", f"must be {expected}", where, node.line)
            return None


def describe(node: Node) -> str:
    """What `node` is, for a person."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    try:
        value = resolve(node.text, node.tag, node.plain)
    except ValueError:
        return _shown(node.text)
    if value is None:
        return "null"
    kind = {bool: "the boolean", int: "the number", float: "the number"}.get(type(value), "the text")
    return f"{kind} {_shown(node.text) if kind == 'the text' else node.text}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def is_null(node: Node) -> bool:
    """Whether `node` is YAML's null, be it by an explicit tag."""
    if not isinstance(node, Scalar) or node.text not in _NULLS:
        return False
    return node.plain if node.tag is None else node.tag == _NULL_TAG


def text(decoder: Decoder, node: Node, where: Where) -> str:
    """A field that holds text: numbers and booleans become text, null is empty."""
    return as_text(decoder.scalar(node, where, "text"))


def boolean(decoder: Decoder, node: Node, where: Where) -> bool:
    """A field that holds true or false."""
    value = decoder.scalar(node, where, "true or false")
    if value is None or isinstance(value, bool):
        return bool(value)
    decoder.report("wrong-type", describe(node), "must be true or false", where, node.line)
    return False


def integer(bounds: tuple[int, int], code: str = "wrong-type") -> Decode:
    """A field that holds an integer within `bounds`."""
    low, high = bounds
    rule = f"must be an integer from {low} to {high}"

    def decode(decoder: Decoder, node: Node, where: Where) -> int | None:
        value = decoder.scalar(node, where, "an integer", code)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and low <= value <= high:
            return value
        decoder.report(code, describe(node), rule, where, node.line)
        return None

    return decode


def list_of(item: Decode, null: bool = False, code: str = "wrong-type") -> Decode:
    """A field that holds a list of `item`. With `null`, a null element is as an empty one to `item`."""

    def decode(decoder: Decoder, node: Node, where: Where) -> tuple[Any, ...]:
        if is_null(node):
            return ()
        if not isinstance(node, Sequence):
            decoder.report(code, describe(node), "must be a list", where, node.line)
            return ()
        result = []
        for index, element in enumerate(node.items):
            place = (*where, index)
            if not null and is_null(element):
                decoder.report("null-element", "null", "must not be null", place, element.line)
            else:
                result.append(item(decoder, element, place))
        return tuple(result)

    return decode


def _optional_list_of(item: Decode, null: bool = False) -> Decode:
    decode = list_of(item, null)
    return lambda decoder, node, where: None if is_null(node) else decode(decoder, node, where)


def _gid(decoder: Decoder, node: Node, where: Where) -> int:
    # A null element of a list of numbers is 0 to the library.
    return integer(_UINT32, "bad-gid")(decoder, node, where) or 0


def annotations(decoder: Decoder, node: Node, where: Where) -> dict[str, str]:
    """A mapping of text to text."""
    if is_null(node):
        return {}
    if not isinstance(node, Mapping):
        decoder.report("wrong-type", describe(node), "must be a mapping of text to text", where, node.line)
        return {}
    return {key: text(decoder, value, (*where, key)) for key, _, value in _entries(decoder, node, where)}


def _entries(decoder: Decoder, node: Mapping, where: Where) -> list[tuple[str, int, Node]]:
    try:
        return entries(node)
    except DocumentError as error:
        decoder.report(error.code, error.message, "", where, error.line)
        return []


def object_of(kind: Callable[..., Any], fields: dict[str, tuple[str, Decode]], empty: Any = None) -> Decode:
    """A mapping with exactly these `fields` (the specification's name -> attribute and decoder)."""
    exact = {name: (name, attribute, decode) for name, (attribute, decode) in fields.items()}
    folded = {fold(name): field for name, field in exact.items()}

    def decode_object(decoder: Decoder, node: Node, where: Where) -> Any:
        if is_null(node):
            return empty
        if not isinstance(node, Mapping):
            decoder.report("wrong-type", describe(node), "must be a mapping", where, node.line)
            return empty
        values: dict[str, Any] = {}
        for key, line, value in _entries(decoder, node, where):
            found = exact.get(key) or folded.get(fold(key))
            if found is None:
                rule = f"the fields here are {', '.join(fields)}"
                decoder.report("unknown-field", f"the unknown field {_shown(key)}", rule, where, line)
                continue
            name, attribute, decode = found
            if attribute in values:
                found_text = f"the field {name} twice, in two spellings"
                decoder.report("duplicate-key", found_text, "a field is there once", where, line)
            values[attribute] = decode(decoder, value, (*where, name))
        return kind(**values)

    return decode_object


_texts = list_of(text, null=True)
_number = integer(_INT64)
_id = integer(_UINT32)

_device_node = object_of(
    DeviceNode,
    {
        "path": ("path", text),
        "hostPath": ("host_path", text),
        "type": ("type", text),
        "major": ("major", _number),
        "minor": ("minor", _number),
        "fileMode": ("file_mode", _id),
        "permissions": ("permissions", text),
        "uid": ("uid", _id),
        "gid": ("gid", integer(_UINT32, "bad-gid")),
    },
)
_mount = object_of(
    Mount,
    {
        "hostPath": ("host_path", text),
        "containerPath": ("container_path", text),
        "options": ("options", _texts),
        "type": ("type", text),
    },
)
_hook = object_of(
    Hook,
    {
        "hookName": ("name", text),
        "path": ("path", text),
        "args": ("args", _texts),
        "env": ("env", _texts),
        "timeout": ("timeout", _number),
    },
)
_intel_rdt = object_of(
    IntelRdt,
    {
        "closID": ("clos_id", text),
        "l3CacheSchema": ("l3_cache_schema", text),
        "memBwSchema": ("mem_bw_schema", text),
        "schemata": ("schemata", _optional_list_of(text, null=True)),
        "enableMonitoring": ("enable_monitoring", boolean),
    },
)
_net_device = object_of(
    NetDevice, {"hostInterfaceName": ("host_interface_name", text), "name": ("name", text)}
)
_edits = object_of(
    ContainerEdits,
    {
        "env": ("env", list_of(text)),
        "deviceNodes": ("device_nodes", list_of(_device_node)),
        "mounts": ("mounts", list_of(_mount)),
        "hooks": ("hooks", list_of(_hook)),
        "intelRdt": ("intel_rdt", _intel_rdt),
        "additionalGids": ("additional_gids", list_of(_gid, null=True, code="bad-gid")),
        "netDevices": ("net_devices", list_of(_net_device)),
    },
    NO_EDITS,
)
_device = object_of(
    Device,
    {
        "name": ("name", text),
        "containerEdits": ("edits", _edits),
        "annotations": ("annotations", annotations),
    },
)
_spec = object_of(
    Spec,
    {
        "cdiVersion": ("version", text),
        "kind": ("kind", text),
        "devices": ("devices", list_of(_device)),
        "containerEdits": ("edits", _edits),
        "annotations": ("annotations", annotations),
    },
)


def decode_spec(root: Node) -> tuple[Spec, list[Problem]]:
    """The spec below `root`, and what the decoding found wrong. With a problem, the spec is not whole."""
    decoder = Decoder()
    if not isinstance(root, Mapping):
        found = describe(root)
        return Spec(), [Problem("not-a-mapping", found, "a spec is a mapping", (), root.line)]
    spec: Spec = _spec(decoder, root, ())
    return spec, decoder.problems

"""YAML bytes -> a tree of nodes, within bounds.

Parsing is libyaml's. Where it reads more than yaml.v2 does, which the CDI reference library uses, or reads
it otherwise, the text is refused here: YAML 1.2 directives, the escape ``\\/``, in flow style a question
mark in a plain scalar and a comma right after a tag. Where it reads less (``[a:, b]``, ``"\\'"``, ``![x``,
``!x, y``), so do we.

The tree keeps scalars as text, with what is needed to resolve them later, and the line of every node.
Only the first document counts, as in the reference library. An alias is the very node it names, so a
"billion laughs" file costs what its bytes cost; what it would grow to is computed and bounded.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

if not yaml.__with_libyaml__:
    raise ImportError("PyYAML is built without libyaml here, whose parser reads specs: install its wheel")

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 250_000


class DocumentError(Exception):
    """The bytes are no YAML that the engine reads; `code` is a word for scripts."""

    def __init__(self, code: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line


@dataclass(slots=True, eq=False)
class Scalar:
    """One scalar: its text, its explicit tag and whether it was written plainly, without quotes."""

    text: str
    tag: str | None
    plain: bool
    line: int


@dataclass(slots=True, eq=False)
class Sequence:
    """A list. `weight` and `height` are those of its tree with every alias written out."""

    line: int
    items: "list[Node]" = field(default_factory=list)
    weight: int = 1
    height: int = 1
    complete: bool = False


@dataclass(slots=True, eq=False)
class Mapping:
    """A mapping, duplicates and merge keys (``<<``) as written."""

    line: int
    items: "list[tuple[Node, Node]]" = field(default_factory=list)
    weight: int = 1
    height: int = 1
    complete: bool = False
    key: "Node | None" = None


Node = Scalar | Sequence | Mapping


def compose(data: bytes) -> Node | None:
    """The root of the first document in `data`; `None` when there is none or it is empty.

    Raises `DocumentError`: not YAML 1.1, deeper than `MAX_DEPTH`, larger than `MAX_BYTES`, or growing to
    more than `MAX_NODES` nodes. None of them takes more than a few times `MAX_BYTES` of memory.
    """
    if len(data) > MAX_BYTES:
        raise DocumentError("too-large", f"more than {MAX_BYTES} bytes")
    if not data:
        return None
    try:
        events = yaml.parse(data, Loader=yaml.CLoader)
        return _Composer(data).first_document(events)
    except yaml.reader.ReaderError as error:
        raise DocumentError("bad-encoding", f"undecodable text: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise DocumentError("not-yaml", f"no YAML: {error.problem or error.context}", line) from error
    except UnicodeError as error:
        raise DocumentError("bad-encoding", f"undecodable text: {error}") from error


_SLASH_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\/")
_TAG_AND_COMMA = re.compile(r"(?:&\S+\s+)?!\S*,")


class _Composer:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.flow = 0
        self.anchors: dict[str, Node] = {}
        self.open: list[Sequence | Mapping] = []
        self.root: Node | None = None
        # What yaml.v2 counts: the document, every node, and what it meets again by aliases.
        self.decoded = 1
        self.aliased = 0

    def first_document(self, events: Iterator[Event]) -> Node | None:
        for event in events:
            if isinstance(event, NodeEvent):
                self.take(event)
            elif isinstance(event, CollectionEndEvent):
                self.close()
            elif isinstance(event, DocumentStartEvent):
                # yaml.v2 knows YAML 1.1 only; libyaml would read 1.2 as well.
                if event.version not in (None, (1, 1)):
                    raise DocumentError("not-yaml", "a %YAML directive other than 1.1", _line(event))
            elif isinstance(event, DocumentEndEvent):
                break
        return self.root

    def take(self, event: NodeEvent) -> None:
        line = _line(event)
        if isinstance(event, AliasEvent):
            self.place(self.alias(event.anchor, line), line, by_alias=True)
            return
        self.decoded += 1
        if self.flow or self.has_slash_escape:
            self.check_node(event, line)
        if isinstance(event, ScalarEvent):
            scalar = Scalar(event.value, event.tag, event.implicit[0], line)
            if event.anchor is not None:
                self.anchors[event.anchor] = scalar
            self.place(scalar, line)
            return
        node = Sequence(line) if isinstance(event, SequenceStartEvent) else Mapping(line)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        if len(self.open) >= MAX_DEPTH:
            raise DocumentError("too-deep", f"nested more than {MAX_DEPTH} levels", line)
        self.open.append(node)
        # Inside a flow collection everything is flow, whatever libyaml says of its block style.
        self.flow += 1 if self.flow or getattr(event, "flow_style", False) else 0

    @cached_property
    def text(self) -> str:
        """The document's text, which an event's marks count the characters of."""
        wide = self.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return self.data.decode("utf-16" if wide else "utf-8-sig", "replace")

    @cached_property
    def has_slash_escape(self) -> bool:
        """Whether a ``\\/`` is anywhere: only then are double-quoted scalars looked at."""
        return "\\/" in self.text

    def check_node(self, event: NodeEvent, line: int) -> None:
        """Refuse what libyaml reads and yaml.v2 does not."""
        if self.flow and getattr(event, "tag", None) and _TAG_AND_COMMA.match(self.text, _start(event)):
            raise DocumentError("not-yaml", "a comma right after a tag", line)
        if not isinstance(event, ScalarEvent):
            return
        if self.flow and not event.style and "?" in event.value:
            raise DocumentError("not-yaml", "a question mark in unquoted text of flow style", line)
        slash = event.style == '"' and self.has_slash_escape
        if slash and _SLASH_ESCAPE.search(self.text, _start(event), _end(event)):
            raise DocumentError("not-yaml", r"the escape \/, which YAML 1.1 does not have", line)

    def alias(self, anchor: str | None, line: int) -> Node:
        node = self.anchors.get(anchor or "")
        if node is None:
            raise DocumentError("not-yaml", f"the alias *{anchor} has no anchor", line)
        if not isinstance(node, Scalar) and not node.complete:
            raise DocumentError("not-yaml", f"the anchor &{anchor} holds itself", line)
        weight = 1 if isinstance(node, Scalar) else node.weight
        self.decoded += 1 + weight
        self.aliased += weight
        # yaml.v2's own bound (decode.go, allowedAliasRatio), for as many nodes as we read.
        if self.aliased > 100 and self.decoded > 1000 and self.aliased > 0.99 * self.decoded:
            raise DocumentError("alias-bomb", "hardly anything but aliases", line)
        return node

    def close(self) -> None:
        node = self.open.pop()
        self.flow -= 1 if self.flow else 0
        node.complete = True
        self.place(node, node.line)

    def place(self, node: Node, line: int, by_alias: bool = False) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(node, Scalar):
            parent.weight += 1 + by_alias
        else:
            parent.weight += node.weight + by_alias
            parent.height = max(parent.height, node.height + 1)
            if parent.height > MAX_DEPTH:
                raise DocumentError("too-deep", f"nested more than {MAX_DEPTH} levels", line)
        if parent.weight > MAX_NODES:
            code = "alias-bomb" if self.anchors else "too-large"
            raise DocumentError(code, f"more than {MAX_NODES} values, aliases written out", line)
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            parent.items.append((parent.key, node))
            parent.key = None


# PyYAML's types allow an event without marks; libyaml makes none.
def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _start(event: Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _end(event: Event) -> int:
    return event.end_mark.index if event.end_mark else 0

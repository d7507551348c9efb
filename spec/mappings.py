"""The entries of a YAML mapping as the engine sees them: merge keys taken in, no key twice.

yaml.v2 reads strictly: a key that is there twice is an error, one that a merge (``<<``) brings included.
PyYAML would take the last.
"""

from collections.abc import Iterator

from spec.document import DocumentError, Mapping, Node, Scalar, Sequence
from spec.scalars import as_text, resolve

_MERGE_TAG = "tag:yaml.org,2002:merge"
# Go's JSON decoder matches a struct's fields by Unicode's simple folding. Beside ASCII's letters only
# these two characters fold into a field's name.
_FOLD = str.maketrans({"\N{LATIN SMALL LETTER LONG S}": "s", "\N{KELVIN SIGN}": "k"})


def fold(key: str) -> str:
    """`key` as Go compares it with the names of fields."""
    return key.translate(_FOLD).lower() if key.isascii() else _fold_wide(key)


def _fold_wide(key: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in key.translate(_FOLD))


def entries(mapping: Mapping) -> list[tuple[str, int, Node]]:
    """Each entry's key as text, the key's line, and the value.

    Raises `DocumentError` for a key twice, a key that is no scalar or null, and a merge of no mapping.
    """
    seen: set[tuple[type, object]] = set()
    texts: dict[str, Node] = {}
    result: list[tuple[str, int, Node]] = []
    merges = any(_is_merge(key) for key, _ in mapping.items)
    for key, value in _merged(mapping) if merges else mapping.items:
        resolved = _resolved_key(key)
        # The integer 1 and the text 1 are two keys to YAML; a struct's field is still one.
        identity = (type(resolved), resolved)
        if identity in seen:
            raise DocumentError("duplicate-key", f"the key {as_text(resolved)!r} twice", key.line)
        seen.add(identity)
        text = as_text(resolved)
        if text in texts and not _same(texts[text], value):
            # Go keeps one of the two, and which one is chance.
            raise DocumentError("duplicate-key", f"the key {text!r} twice, with two types", key.line)
        texts[text] = value
        result.append((text, key.line, value))
    return result


def _resolved_key(key: Node) -> str | int | float | bool:
    if not isinstance(key, Scalar):
        raise DocumentError("bad-key", "a key that is a list or a mapping", key.line)
    try:
        resolved = resolve(key.text, key.tag, key.plain)
    except ValueError as error:
        raise DocumentError("not-yaml", f"the key {key.text!r} {error}", key.line) from error
    if resolved is None:
        raise DocumentError("bad-key", "a null key", key.line)
    return resolved


def _same(one: Node, other: Node) -> bool:
    return isinstance(one, Scalar) and isinstance(other, Scalar) and one.text == other.text


def _is_merge(key: Node) -> bool:
    return isinstance(key, Scalar) and key.text == "<<" and (key.plain or key.tag == _MERGE_TAG)


def _merged(mapping: Mapping) -> Iterator[tuple[Node, Node]]:
    for key, value in mapping.items:
        if _is_merge(key):
            sources = value.items if isinstance(value, Sequence) else [value]
            for source in sources:
                if not isinstance(source, Mapping):
                    raise DocumentError("not-yaml", "a merge key (<<) of what is no mapping", key.line)
                yield from _merged(source)
        else:
            yield key, value

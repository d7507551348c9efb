"""Sets of names, written as a line of words."""


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())

"""Values that most requests do not need: made when they are looked at."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload


class Later(Sequence[str]):
    """The strings that `make` returns; it is called at the first look, and once."""

    def __init__(self, make: Callable[[], Sequence[str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[str]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._made[index]

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

"""The plain window: a list, folded anew each time. It shares nothing with the techniques."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any


class PlainWindow:
    """The last `size` partials and their aggregate."""

    def __init__(self, combine: Callable[[Any, Any], Any], identity: Any, size: int) -> None:
        self._combine, self._identity, self._size = combine, identity, size
        self._partials: list[Any] = []

    def slide(self, partials: Iterable[Any]) -> list[Any]:
        """The aggregate of the last `size` partials after each of these."""
        return [self._add(each) for each in partials]

    def last(self, count: int) -> Any:
        """The aggregate of the last `count` partials."""
        return reduce(self._combine, self._partials[-count:], self._identity)

    def _add(self, partial: Any) -> Any:
        self._partials.append(partial)
        del self._partials[: -self._size]
        return self.last(self._size)

"""A Python function as a sink: called with every change, at least once, in order.

The first call of every start has all rows of the view (`change.is_whole`). A call that raises is
made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewmill.errors import InvalidArgument
from viewmill.sinks.sink import Change, Origin


def function(fn: Callable[[Any], object]) -> Function:
    """Call `fn(change)` for every version that changes the view; `change.version` says which.

    `change.inserted` and `change.deleted` are its rows. At least once: what raised comes again, and
    a start begins with all rows, which `change.is_whole` says.
    """
    if not callable(fn):
        raise InvalidArgument(f"{fn!r} is no function", hint="vm.sinks.function(print)")
    return Function(fn)


class Function:
    """A function that is told of changes."""

    guarantee, takes_each_version, takes_whole = "at least once", True, False

    def __init__(self, fn: Callable[[Any], object]) -> None:
        self._fn = fn
        self.title = f"function {getattr(fn, '__qualname__', type(fn).__qualname__)}"

    def open(self, origin: Origin) -> None:
        """Nobody knows what it was told before."""

    def replace(self, rows: Change) -> None:
        """Tell it all rows."""
        self._fn(rows)

    def apply(self, change: Change) -> None:
        """Tell it what changed."""
        self._fn(change)

    def has_taken(self, change: Change) -> bool:
        """A call that raised is made again."""
        return False

    def close(self) -> None:
        """Nothing is held."""

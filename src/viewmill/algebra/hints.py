"""What a user's hint says about the way of maintenance; it never changes what a query means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from viewmill.errors import Span


@dataclass(frozen=True)
class HintedVariable:
    """A column of a variable order, as written, and what lies below it."""

    name: str
    table: str | None = None
    children: tuple[HintedVariable, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        inside = f"({', '.join(map(str, self.children))})" if self.children else ""
        return f"{self.table}.{self.name}{inside}" if self.table else f"{self.name}{inside}"

    def walk(self) -> Iterator[HintedVariable]:
        """This variable and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Hints:
    """The hints of a query. An empty order means that none was given."""

    order: tuple[HintedVariable, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)  # of the order
    indicators: bool = True  # False: a cyclic join may keep larger views to be faster
    dense: bool = False  # a chain of matrices is kept as arrays
    technique: str | None = None  # how windows are put together from panes
    technique_span: Span | None = field(default=None, compare=False, repr=False)
    worst: bool = False  # the slowest answer of a window counts, not the usual one

    def __str__(self) -> str:
        return ", ".join(map(str, self.order))

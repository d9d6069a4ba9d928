"""A chain of matrices kept as arrays: what is multiplied with what. Data only.

A1[x1, x2] (A2[x2, x3] A3[x3, x4])       ArrayJoin(A1, ArrayJoin(A2, A3))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ArrayLeaf:
    """A table as a matrix: the columns of its rows, columns and values."""

    input: str
    row: str
    column: str
    value: str

    def walk(self) -> Iterator[ArrayLeaf | ArrayJoin]:
        """This leaf."""
        yield self

    def __str__(self) -> str:
        return self.input


@dataclass(frozen=True)
class ArrayJoin:
    """The product of two matrices."""

    left: ArrayLeaf | ArrayJoin
    right: ArrayLeaf | ArrayJoin

    def walk(self) -> Iterator[ArrayLeaf | ArrayJoin]:
        """This product and all below it, those below first."""
        yield from self.left.walk()
        yield from self.right.walk()
        yield self

    def __str__(self) -> str:
        return f"({self.left} {self.right})"


@dataclass(frozen=True)
class Arrays:
    """A body that multiplies arrays. `outputs` says what the columns of a row are: row, column or
    value of the product."""

    chain: ArrayJoin
    outputs: tuple[str, ...]

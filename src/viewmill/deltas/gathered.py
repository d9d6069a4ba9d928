"""Rows that came in pieces, put together column by column when somebody reads them.

A kernel hands out a large change in pieces; where nobody follows the view, nobody reads more than
how many rows it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, Mask, Words, concat, joined_multiplicity


def gather(schema: Schema, pieces: Sequence[Delta]) -> Delta:
    """One delta with the rows of all pieces, in order."""
    if len(pieces) < 2:
        return concat(schema, pieces)
    sizes = [each.size for each in pieces]
    words = _Words(list(zip(*(each.columns for each in pieces), strict=True)))
    masks = list(zip(*(each.nulls for each in pieces), strict=True))
    nulls = [None if all(each is None for each in one) else one for one in masks]
    return Delta(schema, words, _Masks(nulls, sizes), joined_multiplicity(pieces), sum(sizes))


class _Words(Sequence[Words]):
    """Columns whose pieces are put together when they are first read, and let go then."""

    __slots__ = ("_columns",)

    def __init__(self, columns: list[tuple[Words, ...]]) -> None:
        self._columns: list[tuple[Words, ...] | Words] = [*columns]

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, i: int) -> Words: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Words]: ...
    def __getitem__(self, i: int | slice) -> Words | Sequence[Words]:
        if isinstance(i, slice):
            return tuple(self[each] for each in range(*i.indices(len(self))))
        found = self._columns[i]
        if isinstance(found, tuple):
            found = self._columns[i] = np.concatenate(found)
        return found


class _Masks(Sequence["Mask | None"]):
    """The NULL masks of gathered columns; None for a piece without NULL."""

    __slots__ = ("_columns", "_sizes")

    def __init__(self, columns: Sequence[tuple[Mask | None, ...] | None], sizes: list[int]) -> None:
        self._columns: list[tuple[Mask | None, ...] | Mask | None] = [*columns]
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, i: int) -> Mask | None: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Mask | None]: ...
    def __getitem__(self, i: int | slice) -> Mask | Sequence[Mask | None] | None:
        if isinstance(i, slice):
            return tuple(self[each] for each in range(*i.indices(len(self))))
        found = self._columns[i]
        if isinstance(found, tuple):
            filled = [
                np.zeros(size, np.uint8) if each is None else each
                for each, size in zip(found, self._sizes, strict=True)
            ]
            found = self._columns[i] = np.concatenate(filled)
        return found

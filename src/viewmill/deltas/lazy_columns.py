"""Columns that came as Arrow and become words when they are first read.

takes  Arrow arrays whose values are sure to fit their columns, and how to make words of one
gives  sequences of words and of masks for a `Delta`

A view over two columns of a wide table never pays for the others, and a table that is only read in
bulk keeps its rows as they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol, final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[Any]
Mask = npt.NDArray[np.uint8]
Pair = tuple[Words, Mask | None]

_NO_ARRAYS: Mapping[int, Any] = {}


# A column, an operator, the constants that it is compared with, or the other column.
FilterTest = tuple[int, str, tuple[int | str, ...], int | None]


class PushedFilter(Protocol):
    """Reads columns of the rows that pass some tests, into arrays that it keeps."""

    room: int  # another one, other arrays
    rows: npt.NDArray[np.int64]
    columns: list[Words]

    def read(self, table: Any, size: int) -> int: ...


class Encode(Protocol):
    """How the columns of a table become words: one by one, by number, or some at once."""

    def one(self, array: Any, i: int) -> Pair: ...
    def many(
        self, table: Any, columns: tuple[int, ...], arrays: Mapping[int, Any]
    ) -> Sequence[Words] | None: ...
    def pushed_filter(
        self, columns: tuple[int, ...], tests: tuple[FilterTest, ...]
    ) -> PushedFilter | None: ...


class LazyColumns:
    """The columns of some rows: an Arrow table, and the words of those that were read.

    `encode` is one object per table, by which rows of one kind know one another. The columns of
    `made` are words only.
    """

    __slots__ = ("_arrays", "_known", "_read", "encode", "made", "size", "table")

    def __init__(
        self,
        table: Any,
        encode: Encode,
        made: frozenset[int] = frozenset(),
        known: dict[int, Pair] | None = None,
        arrays: dict[int, Any] | None = None,
    ) -> None:
        self.table, self.encode, self.made = table, encode, made
        self.size: int = table.num_rows
        self._known: dict[int, Pair] = {} if known is None else known
        # Columns that were asked for already.
        self._arrays: Mapping[int, Any] = _NO_ARRAYS if arrays is None else arrays
        self._read: tuple[tuple[int, ...], Sequence[Words]] = ((), ())  # what was read last at once

    @property
    def width(self) -> int:
        """How many columns."""
        return int(self.table.num_columns)

    def pair(self, i: int) -> Pair:
        """The words and the mask of a column."""
        found = self._known.get(i)
        if found is None:
            array = self._arrays.get(i)
            array = self.table.column(i) if array is None else array
            found = self._known[i] = self.encode.one(array, i)
        return found

    def read(self, columns: tuple[int, ...]) -> Sequence[Words] | None:
        """Make words of these columns at once, if that is quicker; else each is made when read.

        Gives the words if none of these columns was read before, but for these together, and none
        holds a NULL.
        """
        if self._read[0] == columns:
            return self._read[1]
        known = self._known
        wanted = tuple(i for i in columns if i not in known) if known else columns
        if len(wanted) < 2 or not self.size:
            return None
        words = self.encode.many(self.table, wanted, self._arrays)
        if words is None:
            return None
        known.update(zip(wanted, zip(words, repeat(None)), strict=True))
        if wanted is not columns:
            return None
        self._read = (columns, words)
        return words

    def array(self, i: int) -> Any:
        """The column as it came, None if it is words only."""
        return None if i in self.made else self.table.column(i)

    def forget(self) -> None:
        """Let the words go where the Arrow array is there to make them again."""
        if not self._known:
            return  # a pushed-down filter has read what it needed
        self._arrays, self._read = _NO_ARRAYS, ((), ())
        self._known = {i: self._known[i] for i in self.made} if self.made else {}

    def joined(self, others: Sequence[LazyColumns]) -> LazyColumns:
        """The rows of all, in order, without copying what stays Arrow."""
        every = [self, *others]
        table = pa.concat_tables([each.table for each in every])
        known = {i: _joined_pairs([each.pair(i) for each in every]) for i in self.made}
        return LazyColumns(table, self.encode, self.made, known)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.table.nbytes) + sum(words.nbytes for words, _ in self._known.values())


@final
class LazyWords(Sequence[Words]):
    """The words of lazy columns, converted on first access."""

    __slots__ = ("lazy",)

    def __init__(self, lazy: LazyColumns) -> None:
        self.lazy = lazy

    def __len__(self) -> int:
        return self.lazy.width

    @overload
    def __getitem__(self, i: int) -> Words: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Words]: ...
    def __getitem__(self, i: int | slice) -> Words | Sequence[Words]:
        if isinstance(i, slice):
            return tuple(self.lazy.pair(each)[0] for each in range(*i.indices(len(self))))
        return self.lazy.pair(i if i >= 0 else i + len(self))[0]


class LazyMasks(Sequence["Mask | None"]):
    """The NULL masks of lazy columns."""

    __slots__ = ("lazy",)

    def __init__(self, lazy: LazyColumns) -> None:
        self.lazy = lazy

    def __len__(self) -> int:
        return self.lazy.width

    @overload
    def __getitem__(self, i: int) -> Mask | None: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Mask | None]: ...
    def __getitem__(self, i: int | slice) -> Mask | Sequence[Mask | None] | None:
        if isinstance(i, slice):
            return tuple(self.lazy.pair(each)[1] for each in range(*i.indices(len(self))))
        return self.lazy.pair(i if i >= 0 else i + len(self))[1]


def _joined_pairs(pairs: Sequence[Pair]) -> Pair:
    words = np.concatenate([each for each, _ in pairs])
    if all(mask is None for _, mask in pairs):
        return words, None
    masks = [np.zeros(len(w), np.uint8) if mask is None else mask for w, mask in pairs]
    return words, np.concatenate(masks)

"""A delta: the change of a relation, as columns of 8-byte words with a multiplicity per row.

Insert is +1, delete is -1, update is both. Strings are ids of a `Dictionary`. The word of a NULL is
0 and its mask is 1, so that equal rows have equal words.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from viewmill.algebra.packed import Packed
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BIGINT, Type, is_float_word
from viewmill.deltas.lazy_columns import LazyColumns, LazyMasks, LazyWords
from viewmill.deltas.lazy_columns import Mask as Mask
from viewmill.deltas.lazy_columns import Words as Words

_MAX_PYTHON_ROWS = 32  # up to here Python sums sooner than NumPy
_NAN_KEY = 0x7FF8000000000000
_FLOAT, _WORD = struct.Struct("=d"), struct.Struct("=q")


@dataclass(slots=True, eq=False)
class Delta:
    """Rows with multiplicity. `multiplicity` None means that every row is inserted once.

    Columns are contiguous; a mask of None means that the column holds no NULL in these rows. Those
    that came as Arrow are made words when somebody reads them.
    """

    schema: Schema
    columns: Sequence[Words]
    nulls: Sequence[Mask | None]
    multiplicity: npt.NDArray[np.int64] | None
    size: int
    is_from_kernel: bool = False  # columns, masks and multiplicity are as kernels take them

    @classmethod
    def empty(cls, schema: Schema) -> Delta:
        """No change."""
        columns = tuple(no_words(field.type) for field in schema)
        return cls(schema, columns, (None,) * len(schema), None, 0)

    def multiplicities(self) -> npt.NDArray[np.int64]:
        """One multiplicity per row, always an array."""
        return np.ones(self.size, np.int64) if self.multiplicity is None else self.multiplicity

    @classmethod
    def from_lazy(cls, schema: Schema, lazy: LazyColumns) -> Delta:
        """Rows that are inserted once each, as they came."""
        return cls(schema, LazyWords(lazy), LazyMasks(lazy), None, lazy.size)

    @property
    def lazy(self) -> LazyColumns | None:
        """The columns as they came, if they came as Arrow."""
        columns = self.columns
        return columns.lazy if type(columns) is LazyWords else None

    def pair(self, i: int) -> tuple[Words, Mask | None]:
        """The words and the mask of a column."""
        columns = self.columns
        if type(columns) is LazyWords:
            return columns.lazy.pair(i)
        return columns[i], self.nulls[i]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        lazy = self.lazy
        return sum(each.nbytes for each in self.columns) if lazy is None else lazy.nbytes

    @property
    def deletes(self) -> int:
        """How many rows go."""
        return 0 if self.multiplicity is None else int((self.multiplicity < 0).sum())

    @property
    def net_rows(self) -> int:
        """How many rows more there are afterwards."""
        times = self.multiplicity
        if times is None:
            return self.size
        return sum(times.tolist()) if self.size < _MAX_PYTHON_ROWS else int(times.sum())

    def negated(self) -> Delta:
        """The opposite change."""
        return Delta(self.schema, self.columns, self.nulls, -self.multiplicities(), self.size)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Delta:
        """Some of the rows, by position or by mask."""
        columns = tuple(column[rows] for column in self.columns)
        nulls = tuple(None if mask is None else mask[rows] for mask in self.nulls)
        kept = self.multiplicities()[rows]
        return Delta(self.schema, columns, nulls, kept, len(kept))

    def words(self) -> npt.NDArray[np.int64]:
        """One row of int64 words per row: a word per column, then a word of null bits for every 63.

        Floats are given as `float_key` bits, so that rows are equal when SQL calls them equal;
        packed values by a hash, from which there is no way back.
        """
        width = len(self.columns)
        if self.size == 1:
            row = self._row_words(width)
            if row is not None:
                return np.array([row], np.int64)
        matrix = np.empty((self.size, width + null_words(width)), np.int64)
        matrix[:, width:] = 0
        for i, (column, mask) in enumerate(zip(self.columns, self.nulls, strict=True)):
            if column.ndim == 2:
                matrix[:, i] = _hashed(float_keys(column))
            else:
                matrix[:, i] = float_keys(column) if column.dtype == np.float64 else column
            if mask is not None:
                bits = mask.astype(np.int64) << (i % 63)
                matrix[:, width + i // 63] |= bits
        return matrix

    def _row_words(self, width: int) -> list[int] | None:
        """The words of the only row: for a few numbers NumPy's way is the longer one.

        None if it has packed values.
        """
        words = [0] * (width + (width + 62) // 63)
        for i, (column, mask) in enumerate(zip(self.columns, self.nulls, strict=True)):
            if column.ndim != 1:
                return None
            value = column.item()
            words[i] = _float_key(value) if column.dtype.char == "d" else value
            if mask is not None and mask.item():
                words[width + i // 63] |= 1 << (i % 63)
        return words

    @classmethod
    def from_words(
        cls,
        schema: Schema,
        matrix: npt.NDArray[np.int64],
        multiplicity: npt.NDArray[np.int64] | None,
    ) -> Delta:
        """The inverse of `words`."""
        width = len(schema)
        columns: list[Words] = []
        nulls: list[Mask | None] = []
        for i, field in enumerate(schema):
            column = np.ascontiguousarray(matrix[:, i])
            columns.append(column.view(np.float64) if is_float_word(field.type) else column)
            mask = (matrix[:, width + i // 63] >> (i % 63) & 1).astype(np.uint8)
            nulls.append(mask if field.nullable and mask.any() else None)
        return cls(schema, tuple(columns), tuple(nulls), multiplicity, len(matrix))


def no_words(type_: Type) -> Words:
    """A column of no values."""
    shape = (0, type_.width) if isinstance(type_, Packed) and not type_.is_single else 0
    return np.empty(shape, word_dtype(type_))


def _hashed(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A 64-bit hash of each row."""
    hashes = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        hashes = (hashes ^ column.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(29)
    return hashes.view(np.int64)


def word_dtype(type_: Type) -> type[np.int64] | type[np.float64]:
    """float64 for floats, int64 for all else."""
    if isinstance(type_, Packed):
        return np.int64 if type_.is_single and type_.shown == BIGINT else np.float64
    return np.float64 if is_float_word(type_) else np.int64


def null_words(width: int) -> int:
    """How many words of null bits follow the words of `width` columns."""
    return (width + 62) // 63


def _float_key(value: float) -> int:
    """What `float_keys` gives for one number."""
    if value != value:
        return _NAN_KEY
    key: int = _WORD.unpack(_FLOAT.pack(value + 0.0))[0]
    return key


def float_keys(column: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bits of floats such that equal numbers have equal bits: -0.0 is 0.0, all NaN are one."""
    clean = column + 0.0
    bits = clean.view(np.int64)
    bits[np.isnan(clean)] = _NAN_KEY
    return bits


def concat(schema: Schema, deltas: Sequence[Delta]) -> Delta:
    """One delta with the rows of all, in order."""
    if len(deltas) == 1:
        return deltas[0]
    lazy = _joined_lazy(deltas)
    if lazy is not None:
        columns_, nulls_ = LazyWords(lazy), LazyMasks(lazy)
        return Delta(schema, columns_, nulls_, joined_multiplicity(deltas), lazy.size)
    size = sum(delta.size for delta in deltas)
    columns: list[Words] = []
    nulls: list[Mask | None] = []
    for i in range(len(schema)):
        columns.append(np.concatenate([delta.columns[i] for delta in deltas]))
        masks = [delta.nulls[i] for delta in deltas]
        if all(mask is None for mask in masks):
            nulls.append(None)
            continue
        filled = [
            np.zeros(delta.size, np.uint8) if mask is None else mask
            for delta, mask in zip(deltas, masks, strict=True)
        ]
        nulls.append(np.concatenate(filled))
    return Delta(schema, tuple(columns), tuple(nulls), joined_multiplicity(deltas), size)


def joined_multiplicity(deltas: Sequence[Delta]) -> npt.NDArray[np.int64] | None:
    """The multiplicities of all, None if every row is inserted once."""
    if all(delta.multiplicity is None for delta in deltas):
        return None
    return np.concatenate([each.multiplicities() for each in deltas])


def _joined_lazy(deltas: Sequence[Delta]) -> LazyColumns | None:
    """All rows as they came, if all came as Arrow for one table."""
    lazy = [each for delta in deltas if (each := delta.lazy) is not None]
    if not lazy or len(lazy) < len(deltas):
        return None
    first, *others = lazy
    if any(each.encode is not first.encode for each in others):
        return None
    return first.joined(others)

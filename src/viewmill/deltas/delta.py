"""A delta: the change of a relation, as columns of 8-byte words with a multiplicity per row.

Insert is +1, delete is -1, update is both. Strings are ids of a `Dictionary`. The word of a NULL is
0 and its mask is 1, so that equal rows have equal words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Type, is_float_word

Words = npt.NDArray[Any]  # int64 or float64
Mask = npt.NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Delta:
    """Rows with multiplicity. `multiplicity` None means that every row is inserted once.

    Columns are contiguous; a mask of None means that the column holds no NULL in these rows.
    """

    schema: Schema
    columns: tuple[Words, ...]
    nulls: tuple[Mask | None, ...]
    multiplicity: npt.NDArray[np.int64] | None
    size: int

    @classmethod
    def empty(cls, schema: Schema) -> Delta:
        """No change."""
        columns = tuple(np.empty(0, word_dtype(field.type)) for field in schema)
        return cls(schema, columns, (None,) * len(schema), None, 0)

    def multiplicities(self) -> npt.NDArray[np.int64]:
        """One multiplicity per row, always an array."""
        return np.ones(self.size, np.int64) if self.multiplicity is None else self.multiplicity

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

        Floats are given as `float_key` bits, so that rows are equal when SQL calls them equal.
        """
        width = len(self.columns)
        matrix = np.empty((self.size, width + null_words(width)), np.int64)
        matrix[:, width:] = 0
        for i, (column, mask) in enumerate(zip(self.columns, self.nulls, strict=True)):
            matrix[:, i] = float_keys(column) if column.dtype == np.float64 else column
            if mask is not None:
                bits = mask.astype(np.int64) << (i % 63)
                matrix[:, width + i // 63] |= bits
        return matrix

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


def word_dtype(type_: Type) -> type[np.int64] | type[np.float64]:
    """float64 for floats, int64 for all else."""
    return np.float64 if is_float_word(type_) else np.int64


def null_words(width: int) -> int:
    """How many words of null bits follow the words of `width` columns."""
    return (width + 62) // 63


def float_keys(column: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bits of floats such that equal numbers have equal bits: -0.0 is 0.0, all NaN are one."""
    clean = column + 0.0
    bits = clean.view(np.int64)
    bits[np.isnan(clean)] = 0x7FF8000000000000
    return bits


def concat(schema: Schema, deltas: Sequence[Delta]) -> Delta:
    """One delta with the rows of all, in order."""
    if len(deltas) == 1:
        return deltas[0]
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
    plain = all(delta.multiplicity is None for delta in deltas)
    multiplicity = None if plain else np.concatenate([each.multiplicities() for each in deltas])
    return Delta(schema, tuple(columns), tuple(nulls), multiplicity, size)

"""Make rows of the elements of arrays and of the entries of maps: it holds no state.

takes  Program with an Exploded body, the Dictionary of the mill
gives  a Maintainer

Equal arrays of a change are read once; their elements become columns by way of Arrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import decode_column, encode_array
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels.stateless import StatelessMaintainer
from viewmill.program.program import Exploded, Program

Words = npt.NDArray[np.int64]


def build(program: Program, dictionary: Dictionary) -> ExplodeMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, Exploded)
    return ExplodeMaintainer(program, program.body, dictionary)


class ExplodeMaintainer(StatelessMaintainer):
    """A generator at work."""

    def __init__(self, program: Program, body: Exploded, dictionary: Dictionary) -> None:
        super().__init__(program)
        self._body, self._dictionary = body, dictionary
        (rows,) = program.inputs
        self._field = rows.schema[body.column]
        self._width = len(rows.schema)

    def made(self, change: Delta) -> Delta:
        """Make the rows of a change."""
        first, index = self._distinct(change)
        mask = change.nulls[self._body.column]
        nulls = None if mask is None else mask[first]
        words = change.columns[self._body.column][first]
        arrays = decode_column(words, nulls, self._field, self._dictionary)
        starts, lengths, elements = _elements(arrays, self._body.form)
        rows, places, positions = _places(starts[index], lengths[index], outer=self._body.outer)
        taken = change.take(rows)
        columns, masks = list(taken.columns), list(taken.nulls)
        made = self.program.output.fields[self._width :]
        absent = places < 0
        if self._body.form == "posexplode":
            columns.append(np.where(absent, 0, positions))
            masks.append(absent.astype(np.uint8) if absent.any() else None)
            made = made[1:]
        for field, array in zip(made, elements, strict=True):
            column, mask = encode_array(array, field, self._dictionary)
            columns.append(_taken(column, places, absent))
            masks.append(_mask(mask, places, absent))
        schema: Schema = self.program.output
        return Delta(schema, tuple(columns), tuple(masks), taken.multiplicity, taken.size)

    def _distinct(self, delta: Delta) -> tuple[Words, Words]:
        """The first row with each array, and for each row which of these it has."""
        words, mask = delta.columns[self._body.column], delta.nulls[self._body.column]
        if mask is not None:
            words = np.where(mask, -1, words)
        _, first, index = np.unique(words, return_index=True, return_inverse=True)
        return first, index.ravel()


def _elements(arrays: Any, form: str) -> tuple[Words, Words, list[Any]]:
    """Where the elements of each array begin, how many there are, and all of them as columns."""
    if isinstance(arrays, pa.ChunkedArray):
        arrays = arrays.combine_chunks()
    offsets = arrays.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.diff(offsets)
    if arrays.null_count:
        lengths = np.where(arrays.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    if pa.types.is_map(arrays.type):
        return offsets[:-1], lengths, [arrays.keys, arrays.items]
    if form == "inline":
        return offsets[:-1], lengths, arrays.values.flatten()
    return offsets[:-1], lengths, [arrays.values]


def _places(starts: Words, lengths: Words, *, outer: bool) -> tuple[Words, Words, Words]:
    """For each row that is made: the row it is of, the place of its element (-1: none), and the
    element's position in its array."""
    counts = np.maximum(lengths, 1) if outer else lengths
    rows = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    positions = np.arange(len(rows)) - before[rows]
    places = starts[rows] + positions
    return rows, np.where(lengths[rows] > 0, places, -1), positions


def _taken(column: Any, places: Words, absent: npt.NDArray[np.bool_]) -> Any:
    if not len(column):
        return np.zeros(len(places), column.dtype)
    taken = column[np.where(absent, 0, places)]
    return np.where(absent, taken.dtype.type(0), taken) if absent.any() else taken


def _mask(mask: Any, places: Words, absent: npt.NDArray[np.bool_]) -> Any:
    if mask is None:
        return absent.astype(np.uint8) if absent.any() else None
    if not len(mask):
        return absent.astype(np.uint8)
    made = np.where(absent, 1, mask[np.where(absent, 0, places)]).astype(np.uint8)
    return made if made.any() else None

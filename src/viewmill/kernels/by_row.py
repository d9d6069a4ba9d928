"""Keep a block whose rows are computed one by one in Python: it holds no state.

takes  Program with a ByRow body, the Dictionary of the mill
gives  a Maintainer: a delta comes in, its rows that pass go out with what was computed of them

Equal rows are computed once, and remembered for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill import errors
from viewmill.algebra.expressions import Column
from viewmill.algebra.schema import Field
from viewmill.algebra.walk import columns_of
from viewmill.deltas.arrow import decode_column
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.values import words_of
from viewmill.errors import EvaluationFailed, ViewmillError
from viewmill.program.evaluate import RowFailed, evaluate
from viewmill.program.program import ByRow, Program

_MOST = 100_000  # rows that are remembered
_HIDDEN = None  # what is remembered of a row that does not pass


def build(program: Program, dictionary: Dictionary) -> RowMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, ByRow)
    return RowMaintainer(program, program.body, dictionary)


class RowMaintainer:
    """A block of computed rows at work."""

    def __init__(self, program: Program, body: ByRow, dictionary: Dictionary) -> None:
        self.program, self._body, self._dictionary = program, body, dictionary
        (self._input,) = program.inputs
        self._names = body.names  # of the input's columns, as expressions call them
        self._plain = [each.name if isinstance(each, Column) else "" for _, each in body.outputs]
        self._made = [each for _, each in body.outputs if not isinstance(each, Column)]
        used = set().union(*(columns_of(each) for each in (*body.where, *self._made)))
        self._read = [i for i, name in enumerate(self._names) if name in used]
        self._known: dict[bytes, tuple[Any, ...] | None] = {}
        self._waiting: list[Delta] = []

    def apply(self, input: str, delta: Delta) -> None:
        """Compute the rows of a change."""
        if delta.size:
            self._waiting.append(self._computed(delta))

    def flush(self) -> Delta:
        """What was computed since the last commit."""
        if not self._waiting:
            return Delta.empty(self.program.output)
        return concat(self.program.output, self._waiting)

    def commit(self) -> None:
        """The rows have arrived."""
        self._waiting = []

    def rollback(self) -> None:
        """The rows never set out."""
        self._waiting = []

    def contents(self) -> Delta:
        """It keeps no rows: the next block does."""
        return Delta.empty(self.program.output)

    def load(self, state: str, rows: Iterable[pa.RecordBatch]) -> None:
        """It has no states."""

    def release(self, state: str) -> None:
        """It has no states."""

    def snapshot(self, state: str) -> Iterator[pa.RecordBatch]:
        """It has no states."""
        return iter(())

    def state_bytes(self) -> Mapping[str, int]:
        """It has no states."""
        return {}

    def _computed(self, delta: Delta) -> Delta:
        rows, index = self._distinct(delta)
        values = [self._known_or_new(delta, int(i), key) for key, i in rows]
        shown = np.array([each is not _HIDDEN for each in values], np.bool_)[index]
        columns, masks = [], []
        made = iter(range(len(self._made)))
        for name, field in zip(self._plain, self.program.output, strict=True):
            if name:
                at = self._names.index(name)
                mask = delta.nulls[at]
                columns.append(delta.columns[at][shown])
                masks.append(None if mask is None else mask[shown])
                continue
            n = next(made)
            words, mask = self._words([each and each[n] for each in values], field)
            columns.append(words[index][shown])
            masks.append(None if mask is None else mask[index][shown])
        times = delta.multiplicities()[shown]
        return Delta(self.program.output, tuple(columns), tuple(masks), times, len(times))

    def _words(self, values: list[Any], field: Field) -> Any:
        # A row that does not pass has no value, whatever the column says of NULL.
        lenient = Field(field.name, field.type, True)
        try:
            return words_of(values, lenient, self._dictionary)
        except errors.InvalidRow as why:
            raise EvaluationFailed(str(why.message)) from None

    def _distinct(self, delta: Delta) -> tuple[list[tuple[bytes, int]], npt.NDArray[np.int64]]:
        """Each different row of what is read, with a place where it stands; and which is which."""
        words = _matrix(delta, self._read)
        if not words.shape[1]:
            return [(b"", 0)], np.zeros(delta.size, np.int64)
        void = words.view(np.dtype((np.void, words.shape[1] * 8))).ravel()
        keys, first, index = np.unique(void, return_index=True, return_inverse=True)
        rows = [(key.tobytes(), int(i)) for key, i in zip(keys, first, strict=True)]
        return rows, index.ravel()

    def _known_or_new(self, delta: Delta, i: int, key: bytes) -> tuple[Any, ...] | None:
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = self._compute(self._row(delta, i), i)
        return self._known[key]

    def _row(self, delta: Delta, i: int) -> dict[str, Any]:
        row = {}
        for at in self._read:
            field, mask = self._input.schema[at], delta.nulls[at]
            part = None if mask is None else mask[i : i + 1]
            column = decode_column(delta.columns[at][i : i + 1], part, field, self._dictionary)
            row[self._names[at]] = column.to_pylist()[0]
        return row

    def _compute(self, row: dict[str, Any], i: int) -> tuple[Any, ...] | None:
        try:
            for each in self._body.where:
                if evaluate(each, row) is not True:
                    return _HIDDEN
            return tuple(evaluate(each, row) for each in self._made)
        except RowFailed as why:
            raise _error(why, row, i) from None


def _error(why: RowFailed, row: Mapping[str, Any], i: int) -> ViewmillError:
    found = getattr(errors, why.kind, EvaluationFailed)
    shown = ", ".join(f"{name.split('.')[-1]} = {value!r}" for name, value in row.items())
    made: ViewmillError = found(why.message, detail=f"row {i} of the batch: {shown}", span=why.span)
    return made


def _matrix(delta: Delta, columns: list[int]) -> npt.NDArray[np.int64]:
    """The words of some columns and their nulls, row by row."""
    words = np.zeros((delta.size, 2 * len(columns)), np.int64)
    for n, at in enumerate(columns):
        column = delta.columns[at]
        words[:, 2 * n] = column.view(np.int64) if column.dtype == np.float64 else column
        mask = delta.nulls[at]
        if mask is not None:
            words[:, 2 * n + 1] = mask
    return words

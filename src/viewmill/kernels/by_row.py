"""Keep a block whose rows are computed one by one in Python: it holds no state.

takes  Program with a ByRow body, the Dictionary of the mill
gives  a Maintainer: a delta comes in, its rows that pass go out with what was computed of them

Equal rows of a change are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill import errors
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Column
from viewmill.algebra.schema import Field
from viewmill.algebra.types import String, Timestamp
from viewmill.algebra.walk import columns_of
from viewmill.deltas.arrow import decode_column, encode_array
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.values import words_of
from viewmill.errors import EvaluationFailed, ViewmillError
from viewmill.kernels.stateless import StatelessMaintainer
from viewmill.program.evaluate import Row, RowFailed, compile_rows, vectorized_calls
from viewmill.program.program import ByRow, Program

_HIDDEN = None  # what is computed of a row that does not pass
_MAX_ASKED = 10_000  # rows of one call of a vectorized function
_MAX_PYTHON_STRINGS = 64  # more are encoded by way of an Arrow array
_FIRST_YEAR, _LAST_YEAR = -62_135_596_800_000_000, 253_402_300_800_000_000  # 1 and 10000
_FACTOR = np.int64(-7046029254386353131)


def build(program: Program, dictionary: Dictionary) -> RowMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, ByRow)
    return RowMaintainer(program, program.body, dictionary)


class RowMaintainer(StatelessMaintainer):
    """A block of computed rows at work."""

    def __init__(self, program: Program, body: ByRow, dictionary: Dictionary) -> None:
        super().__init__(program)
        self._body, self._dictionary = body, dictionary
        (self._input,) = program.inputs
        self._names = body.names  # of the input's columns, as expressions call them
        self._plain = [each.name if isinstance(each, Column) else "" for _, each in body.outputs]
        self._made = [each for _, each in body.outputs if not isinstance(each, Column)]
        used = set().union(*(columns_of(each) for each in (*body.where, *self._made)))
        self._read = [i for i, name in enumerate(self._names) if name in used]
        read = [self._names[i] for i in self._read]
        made = compile_rows([*body.where, *self._made], read)
        self._tests, self._outputs = made[: len(body.where)], made[len(body.where) :]
        self._vectorized = [vectorized_calls(each, read) for each in (body.where, self._made)]

    def made(self, change: Delta) -> Delta:
        """Compute the rows of a change."""
        first, index = self._distinct(change)
        read = [self._values(change, at, first) for at in self._read]
        rows: list[Row] = list(zip(*read, strict=True)) if read else [()]
        values = self._compute(rows, first)
        shown = np.array([each is not _HIDDEN for each in values], np.bool_)[index]
        columns, masks = [], []
        made = iter(range(len(self._made)))
        for name, field in zip(self._plain, self.program.output, strict=True):
            if name:
                at = self._names.index(name)
                mask = change.nulls[at]
                columns.append(change.columns[at][shown])
                masks.append(None if mask is None else mask[shown])
                continue
            n = next(made)
            shown_values = [each and each[n] for each in values]
            try:
                words, mask = self._words(shown_values, field)
            except errors.InvalidRow:
                raise self._unfit(n, shown_values, field, rows, first) from None
            columns.append(words[index][shown])
            masks.append(None if mask is None else mask[index][shown])
        times = change.multiplicities()[shown]
        return Delta(self.program.output, tuple(columns), tuple(masks), times, len(times))

    def _words(self, values: list[Any], field: Field) -> Any:
        # A row that does not pass has no value, whatever the column says of NULL.
        lenient = Field(field.name, field.type, True)
        if isinstance(field.type, String) and len(values) > _MAX_PYTHON_STRINGS:
            return encode_array(pa.array(values, pa.string()), lenient, self._dictionary)
        return words_of(values, lenient, self._dictionary)

    def _unfit(
        self, n: int, values: list[Any], field: Field, rows: list[Row],
        places: npt.NDArray[np.int64],
    ) -> ViewmillError:  # fmt: skip
        """The first row of the batch whose value is wider than what is kept of it."""
        expression = self._made[n]
        for i in np.argsort(places, kind="stable").tolist():
            try:
                self._words([values[i]], field)
            except errors.InvalidRow:
                what = f"{values[i]} as {field.type} is wider than 64 bits"
                text = f"{display_expression(expression)}: {what}"
                why = RowFailed("Overflow", text, expression.span)
                made = _error(why, self._named(rows[i]), int(places[i]))
                made.hint = "Cast it to DOUBLE, or to a DECIMAL of fewer digits, or ROUND it."
                return made
        return EvaluationFailed(f"{display_expression(expression)}: no {field.type}")

    def _named(self, row: Row) -> dict[str, Any]:
        return {self._names[at]: value for at, value in zip(self._read, row, strict=True)}

    def _distinct(self, delta: Delta) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The first position of each distinct input row, and for each row which one it equals."""
        words = _matrix(delta, self._read)
        if not words.shape[1]:
            return np.zeros(1, np.int64), np.zeros(delta.size, np.int64)
        _, first, index = np.unique(_hashes(words), return_index=True, return_inverse=True)
        index = index.ravel()
        if (words[first[index]] != words).any():  # two rows have one hash
            every = np.arange(delta.size)
            return every, every
        return first, index

    def _values(self, delta: Delta, at: int, rows: npt.NDArray[np.int64]) -> list[Any]:
        """The values of a column in some rows."""
        field, mask, words = self._input.schema[at], delta.nulls[at], delta.columns[at][rows]
        if isinstance(field.type, Timestamp) and mask is None and _are_moments(words):
            moments: list[Any] = words.view("datetime64[us]").tolist()
            return moments
        part = None if mask is None else mask[rows]
        values: list[Any] = decode_column(words, part, field, self._dictionary).to_pylist()
        return values

    def _compute(
        self, rows: Sequence[Row], places: npt.NDArray[np.int64]
    ) -> list[tuple[Any, ...] | None]:
        """What is shown of each row, the first of the batch that fails fails it."""
        made: list[tuple[Any, ...] | None] = [_HIDDEN] * len(rows)
        tests, outputs = self._tests, self._outputs
        order = np.argsort(places, kind="stable").tolist()
        for at, i in enumerate(order):
            if at % _MAX_ASKED == 0:
                self._ask_ahead([rows[each] for each in order[at : at + _MAX_ASKED]])
            row = rows[i]
            try:
                if _all(tests, row):
                    made[i] = tuple([each(row) for each in outputs])
            except RowFailed as why:
                raise _error(why, self._named(row), int(places[i])) from None
        return made

    def _ask_ahead(self, rows: Sequence[Row]) -> None:
        """Call vectorized functions for many rows at once; their values are cached."""
        of_tests, of_outputs = self._vectorized
        for ask in of_tests:
            ask(rows)
        if of_outputs:
            rows = [row for row in rows if self._passes(row)]
        for ask in of_outputs:
            ask(rows)

    def _passes(self, row: Row) -> bool:
        try:
            return _all(self._tests, row)
        except RowFailed:
            return False


def _are_moments(words: npt.NDArray[np.int64]) -> bool:
    """Whether Python has all these times."""
    return bool(len(words) and words.min() >= _FIRST_YEAR and words.max() < _LAST_YEAR)


def _all(tests: Sequence[Callable[[Row], Any]], row: Row) -> bool:
    for test in tests:  # noqa: SIM110 (a generator takes longer)
        if test(row) is not True:
            return False
    return True


def _error(why: RowFailed, row: Mapping[str, Any], i: int) -> ViewmillError:
    found = getattr(errors, why.kind, EvaluationFailed)
    shown = ", ".join(f"{_short(name)} = {value!r}" for name, value in row.items())
    made: ViewmillError = found(why.message, detail=f"row {i} of the batch: {shown}", span=why.span)
    return made


def _short(name: str) -> str:
    """A column's name without its table's; what was computed goes by its expression."""
    return name.split(".")[-1] if "(" not in name else name


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


def _hashes(words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A hash of each row."""
    hashes = words[:, 0].copy()
    for column in words.T[1:]:
        hashes = (hashes ^ (hashes >> 29)) * _FACTOR + column
    return hashes

"""Components of SQL aggregates: lifted from rows into words and reals, finished for SQL.

A component is kept once for all views that read it: AVG is finished from the sum and the count that
SUM keeps. How two payloads become one is told by `ops`, which `structures.windows.payload_rows`
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.types import Decimal, Float, Integer, Type, Wide
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.wide_codes import OWN
from viewmill.errors import Overflow
from viewmill.kernels.float_bins import PARTS, float_bins, multiples, rounded_sums
from viewmill.kernels.float_squares import squared, squares_around
from viewmill.kernels.structures.windows.payload_rows import (
    ADD,
    BEST,
    FLOAT,
    LATEST,
    USER,
    WIDE,
)
from viewmill.program.windows import WindowAggregate

Array = npt.NDArray[Any]
Columns = list[Array]
Answer = tuple[Array, Array]  # values, and where they are NULL

_LOW = 0xFFFFFFFF
WIDTHS = {
    ADD: (1, 0),
    WIDE: (2, 0),
    FLOAT: (0, PARTS),
    BEST: (6, 0),
    LATEST: (6, 0),
}
BY_PLACE = ("first", "last", "any_value")


@dataclass(frozen=True)
class Rows:
    """Rows that are ordered by pair, time and arrival: the pair (pane and group) of each, how often
    it is there, when, and the arguments."""

    pairs: Array
    count: int  # of pairs
    multiplicity: Array
    times: Array
    arrivals: Array
    columns: Sequence[Array]
    nulls: Sequence[Array | None]
    labels: Callable[[Array], Array] | None = None  # of strings, in their order

    def present(self, argument: int | None) -> Array:
        """Which rows count: those without NULL in the argument."""
        mask = None if argument is None else self.nulls[argument]
        return np.ones(len(self.pairs), np.bool_) if mask is None else mask == 0

    def added(self, present: Array, values: Array) -> Array:
        """The sum of whole numbers of each pair."""
        total = np.zeros(self.count, np.int64)
        np.add.at(total, self.pairs[present], values)
        return total


@dataclass(frozen=True)
class Component:
    """What is kept for some aggregates of the same arguments."""

    arguments: tuple[int, ...]

    kinds: ClassVar[tuple[int, ...]] = ()
    has_inverse: ClassVar[bool] = False
    commutes: ClassVar[bool] = True

    @property
    def width(self) -> tuple[int, int]:
        """Words and reals."""
        sizes = [WIDTHS[kind] for kind in self.kinds]
        return sum(each[0] for each in sizes), sum(each[1] for each in sizes)

    def has(self, need: str) -> bool:
        """Whether a technique that needs this can take the component: "inverse", "selective"."""
        return need == "inverse" and self.has_inverse

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """The payload of each pair."""
        raise NotImplementedError

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """What SQL shows."""
        raise NotImplementedError


class Count(Component):
    """count(*), count(x): rows."""

    kinds = (ADD,)
    has_inverse = True

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Counted with multiplicity."""
        present = rows.present(self.arguments[0] if self.arguments else None)
        return [rows.added(present, rows.multiplicity[present])], []

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """Never NULL."""
        return words[0], np.zeros(len(words[0]), np.bool_)


class WholeSum(Component):
    """Sum and average of integers and decimals: two limbs, so that no step overflows."""

    kinds = (ADD, WIDE)
    has_inverse = True

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Rows, high limb, low limb."""
        present = rows.present(self.arguments[0])
        x, m = rows.columns[self.arguments[0]][present], rows.multiplicity[present]
        high, low = rows.added(present, (x >> 32) * m), rows.added(present, (x & _LOW) * m)
        return [rows.added(present, m), high + (low >> 32), low & _LOW], []

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """The sum, or the average."""
        counts, high, low = words
        high, low = high + (low >> 32), low & _LOW
        if call.function == "avg":
            return _average(call, counts, high, low), counts == 0
        if isinstance(call.type, Wide) and ((high < -(2**30)) | (high >= 2**30)).any():
            each = zip(high.tolist(), low.tolist(), strict=True)
            return _wide([(h << 32) + x for h, x in each], call), counts == 0
        if ((high < -(2**31)) | (high >= 2**31)).any():
            raise Overflow(f"the sum of a window does not fit {call.type}")
        return (high << 32) + low, counts == 0


def _wide(numbers: list[int], call: WindowAggregate) -> Array:
    """Numbers of which one may be wider than a word, as Python's own."""
    assert isinstance(call.type, Decimal | Wide)
    if any(abs(each) >= 10**call.type.precision for each in numbers):
        raise Overflow(f"the {call.function} of a window does not fit {call.type}")
    if isinstance(call.type, Decimal) or all(abs(each) < OWN for each in numbers):
        return np.array(numbers, np.int64)
    return np.array(numbers, object)


def kept_words(values: Array, dictionary: Dictionary) -> Array:
    """Answers as words: wide decimals by their codes."""
    if values.dtype != object:
        return values
    return np.array([dictionary.wide.code(int(each)) for each in values], np.int64)


def _average(call: WindowAggregate, counts: Array, high: Array, low: Array) -> Array:
    if isinstance(call.type, Float):
        total = high.astype(np.float64) * 2.0**32 + low
        return np.divide(total, counts, out=np.zeros(len(counts)), where=counts != 0)
    assert isinstance(call.type, Decimal | Wide)
    assert isinstance(call.argument, Decimal)
    scale = 10 ** (call.type.scale - call.argument.scale)
    each = zip(high.tolist(), low.tolist(), counts.tolist(), strict=True)
    return _wide([_ratio(((h << 32) + x) * scale, n) for h, x, n in each], call)


def _ratio(total: int, count: int) -> int:
    """Half up, away from zero, as SQL rounds."""
    if count == 0:
        return 0
    whole = (2 * abs(total) + count) // (2 * count)
    return whole if total >= 0 else -whole


class FloatSum(Component):
    """Sum and average of floats, with what rounding lost carried along."""

    kinds = (ADD, FLOAT)

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Rows, sum, what it lacks, what that lacks."""
        present = rows.present(self.arguments[0])
        x, m = rows.columns[self.arguments[0]][present], rows.multiplicity[present]
        sums = float_bins(*multiples(rows.pairs[present], x, m), rows.count)
        return [rows.added(present, m)], sums

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """The sum, or the average."""
        counts, total = words[0], rounded_sums(reals)
        if call.function == "avg":
            total = np.divide(total, counts, out=np.zeros(len(counts)), where=counts != 0)
        return total, counts == 0


class Moments(Component):
    """Variance and standard deviation, by the sums of values and of their squares."""

    kinds = (ADD, FLOAT, FLOAT)

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Rows, the parts of both sums."""
        present = rows.present(self.arguments[0])
        x, m = rows.columns[self.arguments[0]][present], rows.multiplicity[present]
        pairs = rows.pairs[present]
        sums = float_bins(*multiples(pairs, x, m), rows.count)
        twice, times = np.concatenate([pairs, pairs]), np.concatenate([m, m])
        squares = float_bins(*multiples(twice, np.concatenate(squared(x)), times), rows.count)
        return [rows.added(present, m)], [*sums, *squares]

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """Over n, or over n - 1, which is NULL for one row."""
        counts = words[0]
        less = 1 if call.function.endswith("_samp") else 0
        value = squares_around(counts, reals[:PARTS], reals[PARTS:])
        value = value / np.maximum(counts - less, 1)
        if call.function.startswith("stddev"):
            value = np.sqrt(value)
        return value, counts <= less


@dataclass(frozen=True)
class Chosen(Component):
    """min, max, min_by, max_by, first, last: one row is chosen.

    Of rows that are equal in what is compared the earliest is chosen, as when they are read in
    order; its time and arrival are kept, so that it does not matter in which order they came.
    """

    function: str = "max"
    by_text: bool = False

    @property
    def kinds(self) -> tuple[int, ...]:  # type: ignore[override]
        """The latest row, or the best one."""
        return (LATEST,) if self.function == "last" else (BEST,)

    def has(self, need: str) -> bool:
        """One row is chosen."""
        return need == "selective"

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Rows, what is compared, time, arrival, what is shown, whether that is NULL."""
        by_place = self.function in BY_PLACE
        present = rows.present(None if by_place else self.arguments[-1]) & (rows.multiplicity > 0)
        at = np.flatnonzero(present)
        pairs, counts = rows.pairs[at], rows.added(present, rows.multiplicity[present])
        shown = rows.columns[self.arguments[0]]
        key = np.zeros(len(at), np.int64)
        if not by_place:
            compared = rows.columns[self.arguments[-1]][at]
            assert not self.by_text or rows.labels is not None
            key = rows.labels(compared) if self.by_text and rows.labels else sortable(compared)
            key = key if self.function.startswith("max") else ~key
        best = np.full(rows.count, -1, np.int64)
        # Rows are in order: of the places that are written twice the last assignment stays.
        order = np.lexsort((-np.arange(len(at)), key))
        order = np.arange(len(at)) if self.function == "last" else order
        best[pairs[order]] = order
        found = np.flatnonzero(best >= 0)
        chosen = at[best[found]]
        mask = rows.nulls[self.arguments[0]]
        null = np.zeros(len(chosen), np.int64) if mask is None else mask[chosen].astype(np.int64)
        shown_words = shown[chosen].view(np.int64)
        values = [key[best[found]], rows.times[chosen], rows.arrivals[chosen], shown_words, null]
        columns = [np.zeros(rows.count, np.int64) for _ in values]
        for column, value in zip(columns, values, strict=True):
            column[found] = value
        return [counts, *columns], []

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """What the chosen row shows."""
        shown = words[4].view(np.float64) if _is_real(call.argument) else words[4]
        return shown, (words[5] != 0) | (words[0] == 0)


@dataclass(frozen=True)
class UserOperation(Component):
    """An operation that was registered: values lifted one by one, combined in order."""

    call: OperationCall | None = None
    number: int = 0  # among the operations of the lane

    @property
    def kinds(self) -> tuple[int, ...]:  # type: ignore[override]
        """One beyond those of SQL."""
        return (USER + self.number,)

    @property
    def commutes(self) -> bool:  # type: ignore[override]
        """As the user's operation declares it."""
        assert self.call is not None
        return self.call.commutes

    def has(self, need: str) -> bool:
        """As the user's operation declares it."""
        assert self.call is not None
        assert self.call.operation is not None
        return self.call.operation.has(need)

    @property
    def width(self) -> tuple[int, int]:
        """A count, and the values: whole numbers or not."""
        assert self.call is not None
        count = len(self.call.kinds)
        return (1 + count, 0) if self.call.is_whole else (1, count)

    def lift(self, rows: Rows) -> tuple[Columns, Columns]:
        """Row by row in Python: the functions are the user's."""
        assert self.call is not None
        operation = self.call.operation
        assert operation is not None
        at = np.flatnonzero(rows.present(self.arguments[0]) & (rows.multiplicity > 0))
        totals: list[Any] = [None] * rows.count
        values, times = rows.columns[self.arguments[0]][at].tolist(), rows.multiplicity[at].tolist()
        for pair, value, m in zip(rows.pairs[at].tolist(), values, times, strict=True):
            for _ in range(m):
                lifted, before = operation.lifted(value), totals[pair]
                totals[pair] = lifted if before is None else operation.combined(before, lifted)
        counts = rows.added(at, rows.multiplicity[at])
        kept = [operation.identity if each is None else each for each in totals]
        numbers = kept if isinstance(operation.identity, tuple) else [(each,) for each in kept]
        dtype = np.int64 if self.call.is_whole else np.float64
        if self.call.is_whole:  # an identity may be infinite, and is not looked at
            numbers = [
                tuple(0 for _ in each) if total is None else each
                for each, total in zip(numbers, totals, strict=True)
            ]
        columns = list(np.array(numbers, dtype).reshape(rows.count, -1).T)
        return ([counts, *columns], []) if self.call.is_whole else ([counts], columns)

    def finish(self, call: WindowAggregate, words: Columns, reals: Columns) -> Answer:
        """Lowered one by one."""
        assert self.call is not None
        operation = self.call.operation
        assert operation is not None
        counts, columns = words[0], words[1:] if self.call.is_whole else reals
        values = []
        for count, *numbers in zip(counts.tolist(), *(e.tolist() for e in columns), strict=True):
            value = operation.packed(numbers) if count else operation.identity
            values.append(operation.lowered(value))
        dtype = np.int64 if self.call.results == ("int",) else np.float64
        return np.array(values, dtype), np.zeros(len(counts), np.bool_)


def sortable(values: Array) -> Array:
    """Whole numbers in the order of the values; of floats NaN is the largest, as in Spark."""
    if values.dtype != np.float64:
        return values
    bits = (values + 0.0).view(np.int64).copy()
    bits[np.isnan(values)] = 0x7FF8000000000000
    return np.asarray(np.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits))


def component_of(call: WindowAggregate) -> Component:
    """What keeps an aggregate."""
    match call.function:
        case "count":
            return Count(call.arguments)
        case "sum" | "avg":
            made = WholeSum if isinstance(call.argument, Integer | Decimal) else FloatSum
            return made(call.arguments)
        case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
            return Moments(call.arguments)
        case _ if call.operation is not None:
            return UserOperation(call.arguments, call=call.operation)
        case "any_value":
            return Chosen(call.arguments, function="first")
        case function:
            return Chosen(call.arguments, function=function, by_text=call.by_text)


def _is_real(type_: Type | None) -> bool:
    return isinstance(type_, Float)

"""Aggregates of groups as columns: lifted from rows, combined pane by pane, finished for SQL.

A payload is a tuple of arrays with one place per group. `combine(older, newer)` is associative and
keeps order, so first, last and ties of max_by come out right; nothing is ever taken away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import Decimal, Float, Integer, Type
from viewmill.errors import Overflow
from viewmill.program.windows import WindowAggregate

Array = npt.NDArray[Any]
Payload = tuple[Array, ...]
Answer = tuple[Array, Array]  # values, and where they are NULL


@dataclass(frozen=True)
class Rows:
    """The rows of one pane in order: group of each, how often it is there, the arguments."""

    groups: Array
    count: int  # of groups
    multiplicity: Array
    columns: tuple[Array, ...]
    nulls: tuple[Array | None, ...]


class Aggregate:
    """How one SQL aggregate is kept."""

    def __init__(self, call: WindowAggregate) -> None:
        self.call = call

    def lift(self, rows: Rows) -> Payload:
        """The payload of the rows' groups."""
        raise NotImplementedError

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """Both, group by group."""
        raise NotImplementedError

    def finish(self, payload: Payload) -> Answer:
        """What SQL shows."""
        raise NotImplementedError

    def _present(self, rows: Rows) -> Array:
        """Which rows count: those without NULL in the last argument."""
        if not self.call.arguments:
            return np.ones(len(rows.groups), np.bool_)
        mask = rows.nulls[self.call.arguments[-1]]
        return np.ones(len(rows.groups), np.bool_) if mask is None else mask == 0

    def _counted(self, rows: Rows, present: Array) -> Array:
        counts = np.zeros(rows.count, np.int64)
        np.add.at(counts, rows.groups[present], rows.multiplicity[present])
        return counts


class Count(Aggregate):
    """count(*), count(x): rows."""

    def lift(self, rows: Rows) -> Payload:
        """Counted with multiplicity."""
        return (self._counted(rows, self._present(rows)),)

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """Added."""
        return (older[0] + newer[0],)

    def finish(self, payload: Payload) -> Answer:
        """Never NULL."""
        return payload[0], np.zeros(len(payload[0]), np.bool_)


_LOW = 0xFFFFFFFF


class WholeSum(Aggregate):
    """Sum and average of integers and decimals: two limbs, so that no step overflows."""

    def lift(self, rows: Rows) -> Payload:
        """Rows, high limb, low limb."""
        present = self._present(rows)
        x, m = rows.columns[self.call.arguments[0]][present], rows.multiplicity[present]
        groups = rows.groups[present]
        high, low = np.zeros(rows.count, np.int64), np.zeros(rows.count, np.int64)
        np.add.at(high, groups, (x >> 32) * m)
        np.add.at(low, groups, (x & _LOW) * m)
        return self._counted(rows, present), high, low

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """Limb by limb, the carry moved up."""
        low = older[2] + newer[2]
        return older[0] + newer[0], older[1] + newer[1] + (low >> 32), low & _LOW

    def finish(self, payload: Payload) -> Answer:
        """The sum, or the average."""
        counts, high, low = payload
        high, low = high + (low >> 32), low & _LOW
        if self.call.function == "avg":
            return self._average(counts, high, low), counts == 0
        if ((high < -(2**31)) | (high >= 2**31)).any():
            raise Overflow(f"the sum of a window does not fit {self.call.type}")
        return (high << 32) + low, counts == 0

    def _average(self, counts: Array, high: Array, low: Array) -> Array:
        if isinstance(self.call.type, Float):
            total = high.astype(np.float64) * 2.0**32 + low
            return np.divide(total, counts, out=np.zeros(len(counts)), where=counts != 0)
        assert isinstance(self.call.type, Decimal)
        assert isinstance(self.call.argument, Decimal)
        scale = 10 ** (self.call.type.scale - self.call.argument.scale)
        each = zip(high.tolist(), low.tolist(), counts.tolist(), strict=True)
        found = [_ratio(((h << 32) + x) * scale, n) for h, x, n in each]
        return np.array(found, np.int64)


def _ratio(total: int, count: int) -> int:
    """Half up, away from zero, as SQL rounds."""
    if count == 0:
        return 0
    whole = (2 * abs(total) + count) // (2 * count)
    return whole if total >= 0 else -whole


class FloatSum(Aggregate):
    """Sum and average of floats, with what rounding lost carried along."""

    def lift(self, rows: Rows) -> Payload:
        """Rows, sum, what it lacks."""
        present = self._present(rows)
        x = rows.columns[self.call.arguments[0]][present] * rows.multiplicity[present]
        total = np.bincount(rows.groups[present], x, rows.count)
        return self._counted(rows, present), total, np.zeros(rows.count)

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """Two-sum: the error of an addition is itself a float."""
        with np.errstate(invalid="ignore", over="ignore"):
            a, b = older[1], newer[1]
            total = a + b
            back = total - a
            lost = (a - (total - back)) + (b - back)
        lost = np.where(np.isfinite(lost), lost, 0.0)
        return older[0] + newer[0], total, older[2] + newer[2] + lost

    def finish(self, payload: Payload) -> Answer:
        """The sum, or the average."""
        counts, total, lost = payload
        total = np.where(np.isfinite(total), total + lost, total)
        if self.call.function == "avg":
            total = np.divide(total, counts, out=np.zeros(len(counts)), where=counts != 0)
        return total, counts == 0


class Moments(Aggregate):
    """Variance and standard deviation: means are merged, so nothing cancels."""

    def lift(self, rows: Rows) -> Payload:
        """Rows, mean, squares around it."""
        present = self._present(rows)
        x, m = rows.columns[self.call.arguments[0]][present], rows.multiplicity[present]
        groups = rows.groups[present]
        counts = self._counted(rows, present)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(groups, x * m, rows.count) / np.maximum(counts, 1)
            squares = np.bincount(groups, m * (x - mean[groups]) ** 2, rows.count)
        return counts, mean, squares

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """Chan's formula."""
        n, k = older[0], newer[0]
        total = np.maximum(n + k, 1)
        with np.errstate(invalid="ignore"):
            apart = np.where((n == 0) | (k == 0), 0.0, newer[1] - older[1])
            mean = np.where(n == 0, newer[1], older[1] + apart * k / total)
            squares = older[2] + newer[2] + apart * apart * n * k / total
        return n + k, mean, squares

    def finish(self, payload: Payload) -> Answer:
        """Over n, or over n - 1, which is NULL for one row."""
        counts, _, squares = payload
        less = 1 if self.call.function.endswith("_samp") else 0
        with np.errstate(invalid="ignore"):
            value = squares / np.maximum(counts - less, 1)
            if self.call.function.startswith("stddev"):
                value = np.sqrt(value)
        return value, counts <= less


class Chosen(Aggregate):
    """min, max, min_by, max_by, first, last: one row of the group is chosen.

    The first of equals stays, as when the rows are read in order.
    """

    def lift(self, rows: Rows) -> Payload:
        """Rows, what is compared, what is shown, whether that is NULL."""
        by_place = self.call.function in ("first", "last", "any_value")
        present = np.ones(len(rows.groups), np.bool_) if by_place else self._present(rows)
        present &= rows.multiplicity > 0
        counts = self._counted(rows, present)
        at = np.flatnonzero(present)
        shown = self.call.arguments[0]
        judged = rows.columns[self.call.arguments[-1]]
        best = self._best(rows.groups[at], judged[at], rows.count, by_place=by_place)
        place = np.where(best >= 0, at[np.maximum(best, 0)] if len(at) else 0, 0)
        if not len(rows.groups):
            nothing = np.zeros(rows.count, judged.dtype)
            return counts, nothing, nothing, np.ones(rows.count, np.bool_)
        mask = rows.nulls[shown]
        null = np.zeros(rows.count, np.bool_) if mask is None else mask[place] != 0
        return counts, judged[place], rows.columns[shown][place], null | (best < 0)

    def _best(self, groups: Array, judged: Array, count: int, *, by_place: bool) -> Array:
        """The position of each group's chosen row, -1 where there is none."""
        best = np.full(count, -1, np.int64)
        if not len(groups):
            return best
        if by_place:
            order = np.arange(len(groups))
            if self.call.function == "last":
                best[groups] = order  # the last assignment stays
            else:
                best[groups[::-1]] = order[::-1]
            return best
        key = _sortable(judged)
        key = key if self.call.function.startswith("max") else _reversed(key)
        # The largest key last, of equal ones the first row.
        order = np.lexsort((-np.arange(len(groups)), key))
        best[groups[order]] = order
        return best

    def combine(self, older: Payload, newer: Payload) -> Payload:
        """The better of two; the older one if they are equal."""
        if self.call.function == "last":
            take_newer = newer[0] > 0
        elif self.call.function in ("first", "any_value"):
            take_newer = older[0] == 0
        else:
            a, b = _sortable(older[1]), _sortable(newer[1])
            better = b > a if self.call.function.startswith("max") else b < a
            take_newer = (newer[0] > 0) & (better | (older[0] == 0))
        chosen = [np.where(take_newer, b, a) for a, b in zip(older[1:], newer[1:], strict=True)]
        return (older[0] + newer[0], *chosen)

    def finish(self, payload: Payload) -> Answer:
        """What the chosen row shows."""
        return payload[2], payload[3] | (payload[0] == 0)


def _sortable(values: Array) -> Array:
    """Whole numbers in the order of the values; of floats NaN is the largest, as in Spark."""
    if values.dtype != np.float64:
        return values
    bits = (values + 0.0).view(np.int64).copy()
    bits[np.isnan(values)] = 0x7FF8000000000000
    return np.asarray(np.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits))


def _reversed(key: Array) -> Array:
    return ~key


def aggregate_of(call: WindowAggregate) -> Aggregate:
    """How a call is kept."""
    made: Callable[[WindowAggregate], Aggregate]
    match call.function:
        case "count":
            made = Count
        case "sum" | "avg":
            made = WholeSum if _is_whole(call.argument) else FloatSum
        case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
            made = Moments
        case _:
            made = Chosen
    return made(call)


def _is_whole(type_: Type | None) -> bool:
    return isinstance(type_, Integer | Decimal)

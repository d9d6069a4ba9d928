"""Helper parts: what the rows of a time part come to, by group, as columns of numbers.

takes  rows as arrays, with the number of each row's group
gives  sums (which can be added and subtracted), greatest keys (MIN and MAX), sums of floats

A helper part has a place for each group that has rows in it; a cumulative one for every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import Float
from viewmill.kernels.float_bins import PARTS, add_sums, float_bins, multiples
from viewmill.kernels.window_payloads import Answer, component_of
from viewmill.program.windows import WindowAggregate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NOTHING = np.iinfo(np.int64).min  # below every key
_LOW = 0xFFFFFFFF
_EXACT = 1 << 20  # 32-bit numbers that add up exactly as floats


@dataclass(frozen=True)
class PartRows:
    """Rows of a part: the group of each, how often it is there (None: once), the arguments."""

    groups: Ints
    multiplicity: Ints | None
    columns: Sequence[Any]
    nulls: Sequence[Any]


@dataclass(frozen=True)
class HelperPart:
    """For each group its sums, greatest keys and sums of floats. The first sum counts rows."""

    groups: Ints  # ascending
    sums: Ints  # by sum, then by group
    keys: Ints
    floats: Floats  # by threes: a sum, what rounding lost of it, what of that

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.groups.nbytes + self.sums.nbytes + self.keys.nbytes + self.floats.nbytes


@dataclass(frozen=True)
class _Place:
    """Where an aggregate lies: its count of values, then its first sum, key or float."""

    kind: str  # count, sum, key, float
    count: int
    first: int = 0


class Layout:
    """Which columns of a helper part belong to which aggregate."""

    def __init__(self, aggregates: Sequence[WindowAggregate], nullable: Sequence[bool]) -> None:
        self._aggregates = aggregates
        self._finish = [component_of(each) for each in aggregates]
        self._counted: list[int | None] = [None]  # the argument whose values each count counts
        self._places: list[_Place] = []
        self.sum_count, self.key_count, self.float_count = 1, 0, 0
        for each in aggregates:
            argument = each.arguments[0] if each.arguments else None
            count = 0 if argument is None or not nullable[argument] else self._count_of(argument)
            self._places.append(self._place(each, count))

    def _count_of(self, argument: int) -> int:
        if argument not in self._counted:
            self._counted.append(argument)
            self.sum_count += 1
        return self._counted.index(argument)

    def _place(self, call: WindowAggregate, count: int) -> _Place:
        if call.function == "count":
            return _Place("count", count)
        if call.function in ("min", "max"):
            self.key_count += 1
            return _Place("key", count, self.key_count - 1)
        if isinstance(call.argument, Float):
            self.float_count += PARTS
            return _Place("float", count, self.float_count - PARTS)
        place = _Place("sum", count, self.sum_count)
        self._counted += [None, None]
        self.sum_count += 2
        return place

    def empty(self) -> HelperPart:
        """The helper part of no rows."""
        return self.blank(np.empty(0, np.int64))

    def blank(self, groups: Ints) -> HelperPart:
        """A helper part with neutral values for these groups."""
        return HelperPart(
            groups,
            np.zeros((self.sum_count, len(groups)), np.int64),
            np.full((self.key_count, len(groups)), NOTHING, np.int64),
            np.zeros((self.float_count, len(groups))),
        )

    def lift(self, rows: PartRows, known: int) -> HelperPart:
        """The helper part of rows; `known` groups have numbers."""
        if 4 * len(rows.groups) > known:
            there = np.zeros(known, np.bool_)
            there[rows.groups] = True
            groups = np.flatnonzero(there)
            places = np.empty(known, np.int64)
            places[groups] = np.arange(len(groups))
            at = places[rows.groups]
        else:
            groups, at = np.unique(rows.groups, return_inverse=True)
        made = self.blank(groups)
        times = rows.multiplicity
        made.sums[0] = _summed(at, times, len(groups))
        for i, argument in enumerate(self._counted):
            if argument is not None:
                mask = rows.nulls[argument]
                made.sums[i] = made.sums[0] if mask is None else _summed(
                    at, _times(mask == 0, times), len(groups)
                )  # fmt: skip
        for call, place in zip(self._aggregates, self._places, strict=True):
            if place.kind != "count":
                self._lift_values(call, place, rows, at, made)
        return made

    def _lift_values(
        self, call: WindowAggregate, place: _Place, rows: PartRows, at: Ints, made: HelperPart
    ) -> None:
        values, mask = rows.columns[call.arguments[0]], rows.nulls[call.arguments[0]]
        times = rows.multiplicity
        if mask is not None and mask.any():
            there = np.flatnonzero(mask == 0)
            values, at = values[there], at[there]
            times = None if times is None else times[there]
        count = len(made.groups)
        if place.kind == "sum":
            for i, limb in enumerate((values >> 32, values & _LOW)):
                if limb.any():
                    weights = limb if times is None else limb * times
                    made.sums[place.first + i] = _summed(
                        at, weights, count, is_wide=times is not None
                    )
        elif place.kind == "float":
            sums = float_bins(*multiples(at, values, times), count)
            made.floats[place.first : place.first + PARTS] = sums
        else:
            keys = _sortable(values)
            keys = keys if call.function == "max" else ~keys
            if times is not None:
                keys, at = keys[times > 0], at[times > 0]
            np.maximum.at(made.keys[place.first], at, keys)

    def joined(self, parts: Sequence[HelperPart], known: int) -> HelperPart:
        """Parts put together."""
        if len(parts) == 1:
            return parts[0]
        if sum(len(each.groups) for each in parts) * 4 > known:
            there = np.zeros(known, np.bool_)
            for each in parts:
                there[each.groups] = True
            groups = np.flatnonzero(there)
        else:
            groups = np.unique(np.concatenate([each.groups for each in parts]))
        made = self.blank(groups)
        for each in parts:
            if len(each.groups) == len(groups):  # the same ones
                self._add(made, slice(None), each)
            else:
                self._add(made, np.searchsorted(groups, each.groups), each)
        return made

    def _add(self, made: HelperPart, at: Any, part: HelperPart) -> None:
        made.sums[:, at] += part.sums
        if self.key_count:
            made.keys[:, at] = np.maximum(made.keys[:, at], part.keys)
        if self.float_count:
            parts = [made.floats[i::PARTS, at] for i in range(PARTS)]
            added = add_sums(parts, [part.floats[i::PARTS] for i in range(PARTS)])
            for i, each in enumerate(added):
                made.floats[i::PARTS, at] = each

    def answers(self, part: HelperPart) -> list[Answer]:
        """What SQL shows of each aggregate, and where that is NULL."""
        found = []
        for call, place, kept in zip(self._aggregates, self._places, self._finish, strict=True):
            counts = part.sums[place.count]
            if place.kind == "count":
                found.append(kept.finish(call, [counts], []))
            elif place.kind == "sum":
                limbs = part.sums[place.first], part.sums[place.first + 1]
                found.append(kept.finish(call, [counts, *limbs], []))
            elif place.kind == "float":
                sums = part.floats[place.first : place.first + PARTS]
                found.append(kept.finish(call, [counts], [*sums]))
            else:
                keys = part.keys[place.first]
                keys = keys if call.function == "max" else ~keys
                found.append((_values(keys, call.argument), counts <= 0))
        return found


def _summed(at: Ints, weights: Any, count: int, *, is_wide: bool = False) -> Ints:
    """Sums of whole numbers, exact; those of at most 32 bits are added as floats, which is fast."""
    if len(at) <= _EXACT and not is_wide:
        return np.asarray(np.bincount(at, weights, count), np.int64)
    total = np.zeros(count, np.int64)
    if is_wide:
        np.add.at(total, at, weights)
        return total
    for start in range(0, len(at), _EXACT):
        piece = slice(start, start + _EXACT)
        total += _summed(at[piece], None if weights is None else weights[piece], count)
    return total


def _times(there: Any, multiplicity: Ints | None) -> Ints:
    found: Ints = there.astype(np.int64) if multiplicity is None else there * multiplicity
    return found


def _sortable(values: Any) -> Ints:
    """Whole numbers in the order of the values; of floats NaN is the largest, as in Spark."""
    if values.dtype != np.float64:
        found: Ints = values
        return found
    bits = (values + 0.0).view(np.int64).copy()
    bits[np.isnan(values)] = 0x7FF8000000000000
    return np.asarray(np.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits))


def _values(keys: Ints, argument: Any) -> Any:
    """The inverse."""
    if not isinstance(argument, Float):
        return keys
    return np.where(keys < 0, keys ^ 0x7FFFFFFFFFFFFFFF, keys).view(np.float64)

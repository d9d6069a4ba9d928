"""Cofactors with categories as Arrow: what a reader of the view sees.

takes  for each group its count, sums and products, and for each category and pair of them the
       values and numbers, as arrays
gives  an array of structs (see `algebra.mixed_moments`), values in order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.deltas.arrow_types import arrow_type

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Levels:
    """The values of a category in a group: an Arrow array, and a row of numbers for each.

    The numbers are count, sums and products, then what rounding took from them; without numeric
    columns the count alone.
    """

    values: pa.Array
    numbers: Floats

    @property
    def texts(self) -> pa.Array:
        """The values as strings."""
        return self.values.cast(pa.string())


@dataclass(frozen=True)
class Counts:
    """How many rows have a value of one category and one of another, by the values' positions."""

    first: Ints
    second: Ints
    counts: Floats


@dataclass(frozen=True)
class MixedGroup:
    """The moments of one group."""

    numbers: Floats  # as those of a level
    levels: Sequence[Levels]
    pairs: Sequence[Counts]


def mixed_array(groups: Sequence[MixedGroup], type_: MixedMoments) -> pa.Array:
    """The structs of some groups."""
    shown = arrow_type(type_)
    m, size = len(type_.numbers), len(groups)
    products = m * (m + 1) // 2
    numbers = np.array([each.numbers[: 1 + m + products] for each in groups], np.float64)
    numbers = numbers.reshape(size, 1 + m + products)
    columns = [
        pa.array(numbers[:, 0].astype(np.int64)),
        pa.array([list(type_.numbers)] * size, pa.list_(pa.string())),
        _stride(pa.array(numbers[:, 1 : m + 1].ravel()), m, size),
        _stride(pa.array(numbers[:, m + 1 :].ravel()), products, size),
        _categories(groups, type_),
        _pairs(groups, type_),
    ]
    arrays = [each.cast(shown.field(i).type) for i, each in enumerate(columns)]
    return pa.StructArray.from_arrays(arrays, fields=list(shown))


def _categories(groups: Sequence[MixedGroup], type_: MixedMoments) -> pa.Array:
    m, count = len(type_.numbers), len(type_.categories)
    texts, rows, sizes = [pa.array([], pa.string())], [np.zeros((0, 1 + m))], []
    for group in groups:
        for level in group.levels:
            order = pc.sort_indices(level.texts)
            texts.append(level.texts.take(order))
            rows.append(level.numbers[order.to_numpy(), : 1 + m])
            sizes.append(len(order))
    numbers = np.concatenate(rows)
    levels = pa.StructArray.from_arrays(
        [
            pa.concat_arrays(texts),
            pa.array(numbers[:, 0].astype(np.int64)),
            _stride(pa.array(numbers[:, 1:].ravel()), m, len(numbers)),
        ],
        names=["value", "n", "sums"],
    )
    listed = _lists(levels, sizes)
    names = [pa.array([each[i] for each in type_.categories] * len(groups)) for i in (0, 1)]
    made = pa.StructArray.from_arrays([*names, listed], names=["name", "type", "levels"])
    return _stride(made, count, len(groups))


def _pairs(groups: Sequence[MixedGroup], type_: MixedMoments) -> pa.Array:
    nothing = pa.array([], pa.string())
    first, second, counts, sizes = [nothing], [nothing], [np.zeros(0)], []
    for group in groups:
        for (i, j), pair in zip(type_.pairs, group.pairs, strict=True):
            a = group.levels[i].texts.take(pa.array(pair.first))
            b = group.levels[j].texts.take(pa.array(pair.second))
            keys = [("a", "ascending"), ("b", "ascending")]
            order = pc.sort_indices(pa.table({"a": a, "b": b}), sort_keys=keys)
            first.append(a.take(order))
            second.append(b.take(order))
            counts.append(pair.counts[order.to_numpy()])
            sizes.append(len(order))
    numbers = np.concatenate(counts).astype(np.int64)
    found = pa.StructArray.from_arrays(
        [pa.concat_arrays(first), pa.concat_arrays(second), pa.array(numbers)],
        names=["a", "b", "n"],
    )
    listed = _lists(found, sizes)
    ends = [
        pa.array([type_.categories[pair[i]][0] for pair in type_.pairs] * len(groups), pa.string())
        for i in (0, 1)
    ]
    made = pa.StructArray.from_arrays([*ends, listed], names=["a", "b", "counts"])
    return _stride(made, len(type_.pairs), len(groups))


def _lists(values: pa.Array, sizes: Sequence[int]) -> pa.Array:
    ends = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values)


def _stride(values: pa.Array, width: int, size: int) -> pa.Array:
    """Lists of `width` values each."""
    return pa.ListArray.from_arrays(pa.array(np.arange(size + 1, dtype=np.int32) * width), values)

"""A product: a change of a table as row sets over disjoint columns, one from each for every row.

    {j: 1, 2} x {k: 7, 8, 9}     six rows (j, k) in five values

The multiplicity of a row is the product of those of its factors' rows. With a `value` column the
factors may each have a value, and the row's is their product: the outer product of two vectors.
Values are words, so that the product of the factors' words is the word of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Float
from viewmill.deltas.delta import Delta, Mask, Words, concat


@dataclass(frozen=True, eq=False)
class Factor:
    """Rows over some columns of the table, by position; `values` are its share of the value."""

    columns: tuple[int, ...]
    rows: Delta
    values: Words | None = None
    value_nulls: Mask | None = None

    @property
    def size(self) -> int:
        """How many rows."""
        return self.rows.size

    def taken(self, rows: npt.NDArray[np.bool_]) -> Factor:
        """Some of the rows."""
        values = None if self.values is None else self.values[rows]
        nulls = None if self.value_nulls is None else self.value_nulls[rows]
        return Factor(self.columns, self.rows.take(rows), values, nulls)


@dataclass(frozen=True)
class Shape:
    """How a product is cut: the columns of each factor, and whether the factor has a value."""

    factors: tuple[tuple[tuple[str, ...], bool], ...]
    value: str | None = None


@dataclass(eq=False)
class Product:
    """The product of `factors`, which have every column of `schema` once."""

    schema: Schema
    factors: tuple[Factor, ...]
    value: int | None = None  # the position of the value column
    _delta: Delta | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # A row that is there no times is in no row of the product.
        self.factors = tuple(
            each if each.rows.multiplicity is None else each.taken(each.rows.multiplicity != 0)
            for each in self.factors
        )

    @property
    def size(self) -> int:
        """How many rows it stands for."""
        return prod(each.size for each in self.factors)

    @property
    def is_small(self) -> bool:
        """Whether it has no more rows than factor values, so that factoring saves nothing."""
        return self.size <= sum(each.size for each in self.factors)

    @property
    def net_rows(self) -> int:
        """The sum of the multiplicities."""
        return prod(int(each.rows.multiplicities().sum()) for each in self.factors)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = [c for each in self.factors for c in (*each.rows.columns, each.values)]
        return sum(each.nbytes for each in arrays if each is not None)

    @property
    def shape(self) -> Shape:
        """How it is cut."""
        names = self.schema.names
        cut = tuple(
            (tuple(names[i] for i in each.columns), each.values is not None)
            for each in self.factors
        )
        return Shape(cut, None if self.value is None else names[self.value])

    @property
    def deletes(self) -> int:
        """How many rows go: those with an odd number of negative multiplicities."""
        come, go = 1, 0
        for each in self.factors:
            negative = each.rows.deletes
            positive = each.size - negative
            come, go = come * positive + go * negative, come * negative + go * positive
        return go

    @property
    def has_deletes(self) -> bool:
        """Whether some row has a negative multiplicity."""
        return self.deletes > 0

    def negated(self) -> Product:
        """The opposite change."""
        first, *others = self.factors
        opposite = Factor(first.columns, first.rows.negated(), first.values, first.value_nulls)
        return Product(self.schema, (opposite, *others), self.value)

    def delta(self) -> Delta:
        """The rows, one by one."""
        if self._delta is None:
            self._delta = self._expanded()
        return self._delta

    def forget_rows(self) -> None:
        """Give the memory of the expanded rows back."""
        self._delta = None

    def _expanded(self) -> Delta:
        size = self.size
        columns: list[Words | None] = [None] * len(self.schema)
        nulls: list[Mask | None] = [None] * len(self.schema)
        times, plain, outer = np.ones(size, np.int64), True, 1
        value: Words | None = None
        value_nulls: Mask | None = None
        for each in self.factors:
            # Row r of the product is made of row (r // inner) % size of this factor.
            inner = size // (outer * each.size) if size else 1
            at = np.tile(np.repeat(np.arange(each.size), inner), outer)
            outer *= each.size
            for i, column, mask in zip(
                each.columns, each.rows.columns, each.rows.nulls, strict=True
            ):
                columns[i] = column[at]
                nulls[i] = None if mask is None else mask[at]
            if each.rows.multiplicity is not None:
                times, plain = times * each.rows.multiplicity[at], False
            if each.values is not None:
                with np.errstate(invalid="ignore", over="ignore"):  # infinity times 0 is NaN
                    value = each.values[at] if value is None else value * each.values[at]
                if each.value_nulls is not None:
                    missing = each.value_nulls[at]
                    value_nulls = missing if value_nulls is None else value_nulls | missing
        if self.value is not None:
            assert value is not None
            columns[self.value] = value if value_nulls is None else np.where(value_nulls, 0, value)
            nulls[self.value] = value_nulls
        whole = tuple(np.ascontiguousarray(each) for each in columns if each is not None)
        return Delta(self.schema, whole, tuple(nulls), None if plain else times, size)

    @property
    def is_plain(self) -> bool:
        """Whether the values can be multiplied in any order: no NaN, infinity or narrow float."""
        if self.value is None:
            return True
        type_ = self.schema[self.value].type
        if not isinstance(type_, Float):
            return True
        held = [each.values for each in self.factors if each.values is not None]
        if type_.bits != 64 and len(held) > 1:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.prod([np.abs(each).max(initial=0.0) for each in held])
        return bool(np.isfinite(largest))


@dataclass(eq=False)
class Pieces:
    """The change of one table as deltas and products, one after another."""

    schema: Schema
    parts: tuple[Delta | Product, ...]
    _delta: Delta | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """How many rows it stands for."""
        return sum(each.size for each in self.parts)

    @property
    def deletes(self) -> int:
        """How many rows go."""
        return sum(each.deletes for each in self.parts)

    def delta(self) -> Delta:
        """All rows, one by one."""
        if self._delta is None:
            self._delta = concat(self.schema, [rows_of(each) for each in self.parts])
        return self._delta

    def forget_rows(self) -> None:
        """Let go what was made by looking at rows one by one."""
        self._delta = None
        for each in self.parts:
            if isinstance(each, Product):
                each.forget_rows()


Changed = Delta | Pieces


def rows_of(part: Delta | Product) -> Delta:
    """The rows of a delta or product, one by one."""
    return part if isinstance(part, Delta) else part.delta()


def as_delta(change: Changed) -> Delta:
    """The rows of a change, one by one."""
    return change if isinstance(change, Delta) else change.delta()


def parts_of(change: Changed) -> tuple[Delta | Product, ...]:
    """What a change is made of."""
    return (change,) if isinstance(change, Delta) else change.parts


def joined(schema: Schema, parts: Sequence[Delta | Product]) -> Changed:
    """One change; deltas that stand side by side become one."""
    if len(parts) == 1 and isinstance(parts[0], Delta):
        return parts[0]
    merged: list[Delta | Product] = []
    run: list[Delta] = []
    for each in parts:
        if isinstance(each, Delta):
            run.append(each)
            continue
        merged += [concat(schema, run)] if run else []
        run = []
        merged.append(each)
    merged += [concat(schema, run)] if run else []
    if len(merged) == 1 and isinstance(merged[0], Delta):
        return merged[0]
    return Pieces(schema, tuple(merged))

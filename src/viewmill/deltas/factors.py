"""Row sets as people have them to a product.

takes  factors: frames, lists of dicts or tuples, columns as a dict of arrays; which column is the
       value, and which one holds multiplicities
gives  `Product` over the table's schema, or None if a factor is empty: then nothing changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, DOUBLE, Decimal, Float, Integer, Type
from viewmill.deltas.delta import Delta, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.frames import table_of, to_table
from viewmill.deltas.product import Factor, Product
from viewmill.deltas.rows import sign_column, to_delta
from viewmill.errors import InvalidArgument, InvalidRow, UnknownName, nearest

MULTIPLICITY = "_multiplicity"  # what `factorize` and changes call it

_LARGEST = 2**63 - 1


def to_product(
    factors: Sequence[Any],
    schema: Schema,
    dictionary: Dictionary,
    *,
    value: str | None = None,
    multiplicity: str | None = None,
) -> Product | None:
    """The product that `factors` mean for a table of `schema`."""
    times = MULTIPLICITY if multiplicity is None else sign_column(schema, multiplicity=multiplicity)
    return _Reader(schema, dictionary, value, times).read(factors)


@dataclass
class _Reader:
    schema: Schema
    dictionary: Dictionary
    value: str | None
    multiplicity: str
    value_at: int | None = None
    taken: dict[int, int] = field(default_factory=dict)  # column to the factor that has it

    def read(self, factors: Sequence[Any]) -> Product | None:
        if not factors:
            raise InvalidArgument("a product needs at least one factor")
        self._find_value()
        read = [self._factor(number, rows) for number, rows in enumerate(factors)]
        if not all(each.size for each in read):
            return None
        self._require_all()
        scaled = self._with_one_scale(read)
        product = Product(self.schema, scaled, self.value_at)
        return product if product.size else None

    def _find_value(self) -> None:
        if self.value is None:
            return
        self.value_at = self.schema.find(self.value)
        if self.value_at is None:
            raise UnknownName(
                f'no column "{self.value}" in the table to hold the product of the values',
                hint=nearest(self.value, self.schema.names),
            )
        column = self.schema[self.value_at]
        if not isinstance(column.type, Integer | Float | Decimal):
            raise InvalidArgument(
                f'column "{column.name}" is {column.type}: values must be numbers',
                hint="Only numbers can be multiplied.",
            )

    # One factor.

    def _factor(self, number: int, rows: Any) -> Factor:
        rows, names = self._named(number, rows)
        has_value, has_times = False, False
        columns: list[int] = []
        for name in names:
            at = self.schema.find(name)
            if at is None and name.lower() == self.multiplicity.lower():
                has_times = True
            elif at is None:
                raise UnknownName(
                    f'no column "{name}" in the table, in factor {number}',
                    hint=nearest(name, self.schema.names),
                )
            elif at == self.value_at:
                has_value = True
            else:
                self._take(at, number)
                columns.append(at)
        fields = tuple(self.schema[at] for at in columns)
        own = Schema((*fields, *((self._value_field(),) if has_value else ())))
        delta = to_delta(
            rows, own, self.dictionary, multiplicity=self.multiplicity if has_times else None
        )
        if not has_value:
            return Factor(tuple(columns), delta)
        *words, values = delta.columns
        *masks, missing = delta.nulls
        plain = Delta(Schema(fields), tuple(words), tuple(masks), delta.multiplicity, delta.size)
        return Factor(tuple(columns), plain, values, missing)

    def _take(self, at: int, number: int) -> None:
        if at in self.taken:
            name = self.schema[at].name
            raise InvalidArgument(
                f'factors {self.taken[at]} and {number} both have column "{name}"',
                detail="The factors of a product have disjoint columns.",
                hint=f'If it is the number they multiply, say value="{name}".'
                if isinstance(self.schema[at].type, Integer | Float | Decimal)
                else "",
            )
        self.taken[at] = number

    def _value_field(self) -> Field:
        """A factor's value may be wider than the column: only the products must fit."""
        assert self.value_at is not None
        column = self.schema[self.value_at]
        wide: Type = column.type
        if isinstance(wide, Integer):
            wide = BIGINT
        elif isinstance(wide, Float):
            wide = DOUBLE
        elif isinstance(wide, Decimal):
            wide = Decimal(18, wide.scale)
        return Field(column.name, wide, column.nullable)

    def _named(self, number: int, rows: Any) -> tuple[Any, list[str]]:
        """The rows in a form that has column names, and the names."""
        if isinstance(rows, Mapping) and any(_is_column(each) for each in rows.values()):
            rows = table_of(rows)
        if isinstance(rows, Mapping):
            rows = [rows]
        table = None if isinstance(rows, list | tuple) else to_table(rows)
        if table is not None:
            return table, list(table.schema.names)
        try:
            rows = list(rows)
        except TypeError:
            raise InvalidRow(
                f"cannot read rows from factor {number}, a {type(rows).__name__}",
                hint="A frame, a list of dicts or tuples, or a dict of columns.",
            ) from None
        if all(isinstance(row, Mapping) for row in rows):
            return rows, list(dict.fromkeys(name for row in rows for name in row))
        width = max((len(row) for row in rows if isinstance(row, tuple | list)), default=1)
        names = self._next(width)
        wrong = next((r for r in rows if not isinstance(r, tuple | list) or len(r) != width), None)
        if wrong is not None or len(names) < width:
            raise InvalidRow(
                f"factor {number} has a row {wrong!r}, where {', '.join(names)} are left",
                hint="Tuples take the columns of the table in order, a value last.",
            )
        return [dict(zip(names, row, strict=True)) for row in rows], names

    def _next(self, width: int) -> list[str]:
        """The columns that tuples of this width mean: the next ones, then the value."""
        free = [
            f.name for i, f in enumerate(self.schema) if i not in self.taken and i != self.value_at
        ]
        if self.value_at is None:
            return free[:width]
        return [*free[: max(width - 1, 0)], self.schema[self.value_at].name]

    # All together.

    def _require_all(self) -> None:
        missing = [
            f.name for i, f in enumerate(self.schema) if i not in self.taken and i != self.value_at
        ]
        if missing:
            raise InvalidArgument(
                f"no factor has column {', '.join(missing)}",
                detail="The factors of a product have every column of the table between them.",
            )

    def _with_one_scale(self, factors: list[Factor]) -> tuple[Factor, ...]:
        """Factors whose words multiply to the word of the column."""
        if self.value_at is None:
            return tuple(factors)
        held = [each.values for each in factors if each.values is not None]
        column = self.schema[self.value_at]
        if not held:
            raise InvalidArgument(
                f'no factor has the value column "{column.name}"',
                hint="Give it in one factor at least; the others count as 1.",
            )
        if isinstance(column.type, Float):
            return tuple(factors)
        divisors = _divisors(held, column)
        parts = iter(zip(held, divisors, strict=True))
        return tuple(
            each if each.values is None else _divided(each, *next(parts)) for each in factors
        )


def _is_column(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray)


def _divided(factor: Factor, words: Words, divisor: int) -> Factor:
    return Factor(factor.columns, factor.rows, words // divisor, factor.value_nulls)


def _divisors(held: list[Words], column: Field) -> list[int]:
    """Divisors by which the product of decimal factors gets the column's scale, not more."""
    type_ = column.type
    scale = type_.scale if isinstance(type_, Decimal) else 0
    power = 10 ** (scale * (len(held) - 1))
    largest = prod(max(abs(int(each.max())), abs(int(each.min()))) for each in held) // power
    if largest > _limit(type_):
        raise InvalidRow(
            f'the products of the values do not fit column "{column.name}"',
            detail=f"It is {type_}, and a product could be as large as {largest}.",
        )
    divisors = []
    # The greatest common divisor of all products is the product of the factors' own.
    for each in held:
        divisor = gcd(gcd(*each.tolist()) or power, power)
        power //= divisor
        divisors.append(divisor)
    if power > 1:
        raise InvalidRow(
            f'the products of the values need more digits than column "{column.name}" has',
            detail=f"It is {type_}.",
            hint="Round the values, or declare the column with more digits.",
        )
    return divisors


def _limit(type_: Type) -> int:
    if isinstance(type_, Decimal):
        return int(min(10**type_.precision - 1, _LARGEST))
    assert isinstance(type_, Integer)
    return int(2 ** (type_.bits - 1)) - 1

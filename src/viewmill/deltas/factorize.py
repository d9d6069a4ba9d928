"""Take rows apart into a union of products with signed payloads (F-IVM, section 5).

takes  rows in any form that a table takes
gives  `Products`: `mill.apply_product` takes one of them or all; together they are the same bag

    a x {b1, b2, b3} and a' x {b1, b2}    is    {a, a'} x {b1, b2, b3}  minus  {a'} x {b3}

With a `value` column the rows are a matrix or tensor, and the products a sum of rank-1 ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.factors import MULTIPLICITY
from viewmill.deltas.frames import table_of, to_table
from viewmill.deltas.product_search import Coded, Term, decompose
from viewmill.deltas.rank import low_rank
from viewmill.errors import InvalidArgument, InvalidRow, UnknownName, nearest


@dataclass(frozen=True)
class ProductRows(Sequence[pa.Table]):
    """A product: row sets over disjoint columns, as Arrow tables.

    A column `_multiplicity` gives the payload of each row, one or several tables may have the
    column named by `value`; where there is none it is 1.
    """

    factors: tuple[pa.Table, ...]
    value: str | None = None
    places: tuple[str, ...] = ()  # names made up for columns that had none, in their order

    def __getitem__(self, index: Any) -> Any:
        return self.factors[index]

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def values(self) -> int:
        """How many values it is written with, payloads not counted."""
        return sum(each.num_rows * len(_keys(each, self.value)) for each in self.factors)

    def named(self, names: Sequence[str]) -> ProductRows:
        """Rename unnamed columns to the columns of a table, by position.

        The column of values of a matrix has the name that the table's has, wherever it stands.
        """
        known = {name.lower(): name for name in names}
        if not self.places or all(each.lower() in known for each in self.places):
            return self
        value = known.get(self.value.lower()) if self.value is not None else None
        ours = [each for each in self.places if value is None or each != self.value]
        by_place = dict(zip(ours, [each for each in names if each != value], strict=False))
        tables = [
            each.rename_columns([by_place.get(name, name) for name in each.column_names])
            for each in self.factors
        ]
        return ProductRows(tuple(tables), by_place.get(self.value or "", self.value))

    def rows(self) -> list[dict[str, Any]]:
        """The rows that it stands for, each once, with its `_multiplicity`."""
        found: list[dict[str, Any]] = [{MULTIPLICITY: 1}]
        for factor in self.factors:
            mine = factor.to_pylist()
            found = [_combined(a, b, self.value) for a in found for b in mine]
        return found


class Products(list[ProductRows]):
    """A union of products: the bag of all their rows."""

    @property
    def values(self) -> int:
        """How many values it is written with, payloads not counted."""
        return sum(each.values for each in self)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all products, opposite ones not yet netted."""
        return [row for each in self for row in each.rows()]


def _keys(table: pa.Table, value: str | None) -> list[str]:
    return [name for name in table.column_names if name not in (MULTIPLICITY, value)]


def _combined(a: dict[str, Any], b: dict[str, Any], value: str | None) -> dict[str, Any]:
    row = {**a, **b, MULTIPLICITY: a[MULTIPLICITY] * b.get(MULTIPLICITY, 1)}
    if value in a and value in b:
        row[value] = a[value] * b[value]
    return row


def products_in(
    factors: Any, value: str | None, names: Sequence[str]
) -> Iterator[tuple[Sequence[Any], str | None]]:
    """Each product of what `apply_product` was given, with the column of its values.

    `names` are the columns of the table.
    """
    if isinstance(factors, ProductRows):
        named = factors.named(names)
        yield named.factors, value or named.value
    elif isinstance(factors, list | tuple) and any(isinstance(f, ProductRows) for f in factors):
        for each in factors:
            yield from products_in(each, value, names)
    elif isinstance(factors, Products):
        return
    elif isinstance(factors, Mapping) or not isinstance(factors, list | tuple | Sequence):
        raise InvalidArgument(
            f"the factors must be a list, got a {type(factors).__name__}",
            hint="mill.apply_product(table, [rows over some columns, rows over the others])",
        )
    else:
        yield factors, value


def factorize(rows: Any, *, value: str | None = None, multiplicity: str | None = None) -> Products:
    """Take rows apart into products with few values; their union is exactly the rows, as a bag.

    With `value`, which may also be left out if the rows have a column of numbers named P, rows are
    the entries of a matrix or tensor: the result is a sum of rank-1 products whose values multiply.
    Integers and decimals come out exactly, floats to rounding. The columns of tuples are called
    c0, c1, ..., those of a NumPy matrix i, j, P; a table without columns of these names takes them
    by their place.
    """
    table = _table(rows)
    found = _factorized(table, value, multiplicity)
    if not _has_places(rows):
        return found
    places = tuple(name for name in table.column_names if name != multiplicity)
    return Products(replace(each, places=places) for each in found)


def _has_places(rows: Any) -> bool:
    """Whether columns are told apart by where they stand: they have no names."""
    if isinstance(rows, np.ndarray):
        return True
    return isinstance(rows, list | tuple) and not any(isinstance(row, Mapping) for row in rows)


def _factorized(table: Any, value: str | None, multiplicity: str | None) -> Products:
    if value is None and multiplicity is None:
        value = next((n for n in table.column_names if n == "P" and _is_number(table, n)), None)
    for name in (value, multiplicity):
        if name is not None and name not in table.column_names:
            raise UnknownName(f'the rows have no column "{name}"',
                              hint=nearest(name, table.column_names))  # fmt: skip
    nested = next((each.name for each in table.schema if pa.types.is_nested(each.type)), None)
    if nested is not None:
        raise InvalidRow(
            f'column "{nested}" holds values that are made of others',
            hint="Columns of numbers, strings, dates and the like are taken apart.",
        )
    if value is not None:
        return _matrix(table, value, multiplicity)
    names = [name for name in table.column_names if name != multiplicity]
    if not names or not table.num_rows:
        return Products()
    coded = Coded.of(table.select(names), _times(table, multiplicity))
    return Products(_product(coded, term) for term in decompose(coded))


def _table(rows: Any) -> Any:
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        i, j = np.nonzero(rows)
        return pa.table({"i": i, "j": j, "P": rows[i, j]})
    table = None if isinstance(rows, list | tuple) else to_table(rows)
    if table is not None:
        return table
    if isinstance(rows, Mapping):
        return table_of(rows)
    if not isinstance(rows, Iterable):
        raise InvalidRow(
            f"cannot read rows from {type(rows).__name__}",
            hint="A frame, a matrix, or a list of tuples or dicts.",
        )
    rows = list(rows)
    if all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        return table_of({name: [row.get(name) for row in rows] for name in names})
    if len({len(row) if isinstance(row, tuple | list) else -1 for row in rows}) > 1:
        raise InvalidRow("the rows are not equally long")
    if not all(isinstance(row, tuple | list) for row in rows):
        raise InvalidRow(
            f"cannot read rows from a list of {type(rows[0]).__name__}",
            hint="A frame, or a list of tuples or dicts.",
        )
    width = len(rows[0]) if rows else 0
    return table_of({f"c{i}": [row[i] for row in rows] for i in range(width)})


def _is_number(table: Any, name: str) -> bool:
    type_ = table.column(name).type
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def _times(table: Any, multiplicity: str | None) -> Any:
    if multiplicity is None:
        return np.ones(table.num_rows, np.int64)
    column = table.column(multiplicity)
    if column.null_count or not pa.types.is_integer(column.type):
        raise InvalidRow(f'the multiplicities in column "{multiplicity}" are not all whole numbers')
    return np.ascontiguousarray(column.to_numpy(), np.int64)


def _product(coded: Coded, term: Term) -> ProductRows:
    factors = []
    for part in term:
        columns = {coded.names[i]: coded.values(i, part.rows[:, k])
                   for k, i in enumerate(part.columns)}  # fmt: skip
        table = pa.table(columns)
        if not (part.times == 1).all():
            table = table.append_column(MULTIPLICITY, pa.array(part.times))
        factors.append(table)
    return ProductRows(tuple(factors))


# Matrices.


def _matrix(table: Any, value: str, multiplicity: str | None) -> Products:
    """A sum of rank-1 products: one key column, whichever gives the least, by the others."""
    if not _is_number(table, value):
        raise InvalidArgument(f'column "{value}" does not hold numbers')
    names = [name for name in table.column_names if name not in (value, multiplicity)]
    if table.column(value).null_count:
        raise InvalidRow(f'NULL in the values of column "{value}"')
    if not names or not table.num_rows:
        return Products()
    numbers = Numbers.of(table.column(value), _times(table, multiplicity))
    coded = Coded.of(table.select(names), np.ones(table.num_rows, np.int64), consolidated=False)
    ways = [_split(coded, numbers, value, i) for i in range(len(names) if len(names) > 2 else 1)]
    return min(ways, key=lambda each: each.values)


def _split(coded: Coded, numbers: Numbers, value: str, at: int) -> Products:
    rest = [i for i in range(len(coded.names)) if i != at]
    if not rest:
        total = numbers.summed(coded.codes[:, at])
        kept = np.flatnonzero(total)
        vector = {coded.names[at]: coded.values(at, kept), value: numbers.arrow(total[kept])}
        return Products([ProductRows((pa.table(vector),), value)])
    left, right = coded.groups([at]), coded.groups(rest)
    entries = numbers.grid(left.number, right.number, len(left.rows), len(right.rows))
    found = Products()
    for u, v in low_rank(entries):
        i, j = np.flatnonzero(u), np.flatnonzero(v)
        first = {coded.names[at]: coded.values(at, left.rows[i, 0]), value: numbers.whole(u[i])}
        second = {coded.names[c]: coded.values(c, right.rows[j, k]) for k, c in enumerate(rest)}
        second[value] = numbers.arrow(v[j])
        found.append(ProductRows((pa.table(first), pa.table(second)), value))
    return found


@dataclass(frozen=True)
class Numbers:
    """The values of a matrix: words that are added and multiplied exactly, or floats."""

    words: Any
    type: Any

    @classmethod
    def of(cls, column: Any, times: Any) -> Numbers:
        """A column of values, each as often as its row is there."""
        type_ = column.type
        if pa.types.is_floating(type_):
            return cls(column.to_numpy().astype(np.float64) * times, type_)
        scale = type_.scale if pa.types.is_decimal(type_) else 0
        values = [int(each.scaleb(scale)) if scale else int(each) for each in column.to_pylist()]
        if max((abs(each) for each in values), default=0) >= 2**62:
            raise InvalidRow("the values are too large to be taken apart exactly")
        return cls(np.array(values, np.int64) * times, type_)

    def summed(self, at: Any) -> Any:
        """The sum of the words under each number."""
        total = np.zeros(int(at.max()) + 1, self.words.dtype)
        np.add.at(total, at, self.words)
        return total

    def grid(self, rows: Any, columns: Any, height: int, width: int) -> Any:
        """The matrix."""
        if height * width > _MOST_CELLS:
            raise InvalidArgument(
                f"a matrix of {height} by {width} is too large to be taken apart",
                hint="Take its blocks apart, or apply the products that it was made of.",
            )
        entries = np.zeros((height, width), self.words.dtype)
        np.add.at(entries, (rows, columns), self.words)
        return entries

    def arrow(self, words: Any) -> Any:
        """Words as the column's type; a sum may need a wider one."""
        if pa.types.is_decimal(self.type):
            whole = pa.array(words).cast(pa.decimal128(38, 0))
            scaled = [each.as_py().scaleb(-self.type.scale) for each in whole]
            return pa.array(scaled, pa.decimal128(38, self.type.scale))
        return pa.array(words)

    def whole(self, words: Any) -> Any:
        """Factors of the first side: they have no digits after the point."""
        return (
            pa.array(words).cast(pa.decimal128(38, 0))
            if pa.types.is_decimal(self.type)
            else pa.array(words)
        )


_MOST_CELLS = 1 << 26

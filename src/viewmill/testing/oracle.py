"""An oracle that shares no code with the product: tables are Python rows, views are DuckDB SQL.

takes  the declaration of tables, their changes, and a query in DuckDB's dialect
gives  the rows of the query; `differences` compares them with what a view shows, as bags

Integers, decimals, strings and times must be equal; floats within 1e-9 of each other; a decimal
whose expected value is a float (DuckDB divides and averages decimals as DOUBLE) within one unit of
its last digit.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]

_RELATIVE = 1e-9
_ABSOLUTE = 1e-12  # for sums that cancel: the generators' floats are about 1

_ARROW = {
    "BOOLEAN": pa.bool_(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "STRING": pa.string(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip


class Refused(Exception):
    """The oracle cannot compute the query either: overflow, division by zero."""


class Oracle:
    """Tables as rows with multiplicity, and DuckDB to ask about them."""

    def __init__(self) -> None:
        self._tables: dict[str, _Rows] = {}
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.execute("SET TimeZone = 'UTC'; SET threads = 1")

    def create(
        self, table: str, columns: Sequence[tuple[str, str]], key: Sequence[str] = ()
    ) -> None:
        """Declare a table; types are spelt as in Spark."""
        names = [name for name, _ in columns]
        self._tables[table] = _Rows(list(columns), [names.index(name) for name in key])

    def change(self, table: str, row: Row, times: int) -> None:
        """Add a row `times` times; negative takes it away."""
        self._tables[table].change(row, times)

    def upsert(self, table: str, rows: Iterable[Row]) -> None:
        """Put rows in the place of those that have their key; of equal keys the last one counts."""
        self._tables[table].upsert(rows)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table, each as often as it is there."""
        return self._tables[table].expanded()

    @property
    def is_settled(self) -> bool:
        """Whether no row has been taken away more often than it came."""
        return all(rows.is_settled for rows in self._tables.values())

    def ask(self, query: str) -> list[Row]:
        """The rows of a query in DuckDB's dialect."""
        for name, rows in self._tables.items():
            self._duckdb.register(name, rows.arrow())
        try:
            return [tuple(row) for row in self._duckdb.execute(query).fetchall()]
        except (
            duckdb.OutOfRangeException,
            duckdb.ConversionException,
            duckdb.InvalidInputException,
        ) as why:
            raise Refused(str(why)) from None

    def close(self) -> None:
        """Give DuckDB's memory back."""
        self._duckdb.close()


class _Rows:
    """A bag of rows."""

    def __init__(self, columns: list[tuple[str, str]], key: list[int]) -> None:
        self._columns, self._key = columns, key
        self._counted: dict[Row, tuple[Row, int]] = {}

    def change(self, row: Row, times: int) -> None:
        name = tuple(map(canonical, row))
        total = self._counted.get(name, (row, 0))[1] + times
        if total:
            self._counted[name] = (row, total)
        else:
            self._counted.pop(name, None)

    def upsert(self, rows: Iterable[Row]) -> None:
        for row in rows:
            key = self._key_of(row)
            for name, (old, _) in list(self._counted.items()):
                if self._key_of(old) == key:
                    del self._counted[name]
            self.change(row, 1)

    def _key_of(self, row: Row) -> Row:
        return tuple(canonical(row[i]) for i in self._key)

    @property
    def is_settled(self) -> bool:
        return all(times > 0 for _, times in self._counted.values())

    def expanded(self) -> list[Row]:
        return [row for row, times in self._counted.values() for _ in range(times)]

    def arrow(self) -> Any:
        rows = self.expanded()
        arrays = [
            pa.array([row[i] for row in rows], _arrow_type(type_))
            for i, (_, type_) in enumerate(self._columns)
        ]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in self._columns])


def _arrow_type(name: str) -> Any:
    if name.startswith("DECIMAL"):
        precision, scale = name[len("DECIMAL(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[name]


# Comparing.


def differences(expected: Iterable[Row], actual: Iterable[Row]) -> list[str]:
    """What is missing from `actual` and what is too much in it, one line each; none is right."""
    waiting: dict[Row, list[Row]] = defaultdict(list)
    for row in actual:
        waiting[_shape(row)].append(row)
    found = []
    for row in expected:
        candidates = waiting[_shape(row)]
        partner = next((i for i, other in enumerate(candidates) if _is_near(row, other)), None)
        if partner is None:
            found.append(f"missing {row!r}")
        else:
            del candidates[partner]
    return found + [f"too much {row!r}" for rows in waiting.values() for row in rows]


def canonical(value: Any) -> Any:
    """Equal where SQL says equal: all NaN are one, -0.0 is 0.0; and True is not 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return tuple((name, canonical(each)) for name, each in value.items())
    return value


def _shape(row: Row) -> Row:
    """What must be equal before numbers are compared."""
    return tuple(_kind(value) for value in row)


def _kind(value: Any) -> Any:
    if isinstance(value, bool | str | None | dt.date):
        return canonical(value)
    if isinstance(value, int | float | decimal.Decimal):
        return "number"
    return repr(canonical(value))


def _is_near(expected: Row, actual: Row) -> bool:
    return len(expected) == len(actual) and all(map(_near, expected, actual))


def _near(expected: Any, actual: Any) -> bool:
    if not isinstance(expected, float | int | decimal.Decimal) or isinstance(expected, bool):
        return True  # equal already: it is in the shape
    if isinstance(actual, decimal.Decimal):
        return _near_decimal(expected, actual)
    if isinstance(expected, float) or isinstance(actual, float):
        expected, actual = float(expected), float(actual)
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        return math.isclose(expected, actual, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(expected == actual)


def _near_decimal(expected: Any, actual: decimal.Decimal) -> bool:
    if not isinstance(expected, float):
        return bool(expected == actual)
    if not math.isfinite(expected):
        return False
    unit = decimal.Decimal(1).scaleb(int(actual.as_tuple().exponent))
    slack = abs(decimal.Decimal(expected)) * decimal.Decimal("1e-9")
    return abs(decimal.Decimal(expected) - actual) <= unit + slack

"""Compute views again from plain rows: DuckDB for queries, a few lines of Python for windows.

A definition is plain data, so that it can be stored with the step that creates the view:

reads     the tables and views it reads, by the user's names
duckdb    a query over the oracle's names (`t0`, columns by role); or
window    what `windows.py` computes by brute force
finish    output column -> "sum" or "avg": DuckDB gives the list of values, which are added exactly
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb

from viewmill.testing.oracle import Refused, Row
from viewmill.testing.sessions.windows import window_rows
from viewmill.testing.sessions.world import Table, View, World

_LARGEST = 2**63
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET threads = 1;"
    " SET default_null_order = 'nulls_first_on_asc_last_on_desc'"
)


class Evaluator:
    """DuckDB over the world's rows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.execute(_SETTINGS)
        self._registered: dict[str, Table] = {}

    def rows(self, view: View, tables: Mapping[str, Table]) -> list[Row]:
        """The rows of a view over the tables; raises `Refused` if the query has no answer."""
        definition = view.definition
        if "window" in definition:
            shown = window_rows(definition["window"], tables[view.reads[0]])
            return [tuple(map(_fitting, row)) for row in shown]
        for name in view.reads:
            self._provide(name, tables)
        return _finished(self._run(definition["duckdb"]), definition.get("finish", {}))

    def _provide(self, name: str, tables: Mapping[str, Table]) -> None:
        if name in tables:
            table = tables[name]
            if self._registered.get(table.alias) is not table:
                self._duckdb.register(table.alias, table.arrow())
                self._registered[table.alias] = table
            return
        lower = self._world.views[name]
        for below in lower.reads:
            self._provide(below, tables)
        text = lower.definition["duckdb"]
        self._run(f"CREATE OR REPLACE TEMP VIEW {lower.definition['alias']} AS {text}")

    def _run(self, query: str) -> tuple[list[str], list[Row]]:
        try:
            found = self._duckdb.execute(query)
            names = [column[0] for column in found.description or ()]
            return names, [tuple(row) for row in found.fetchall()]
        except (
            duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException,
        ) as why:  # fmt: skip
            raise Refused(str(why)) from None

    def close(self) -> None:
        """Give DuckDB's memory back."""
        self._duckdb.close()


def _finished(found: tuple[Sequence[str], list[Row]], finish: Mapping[str, str]) -> list[Row]:
    names, rows = found
    steps: list[Callable[[Any], Any]] = [_FINISH[finish.get(name, "as is")] for name in names]
    return [tuple(step(value) for step, value in zip(steps, row, strict=True)) for row in rows]


def _fitting(value: Any) -> Any:
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise Refused("a whole number does not fit BIGINT")
    return value


def exact_sum(values: Sequence[float | None] | None) -> float | None:
    """The sum of all values but NULL, rounded once."""
    given = [value for value in values or () if value is not None]
    if not given:
        return None
    odd = [value for value in given if not math.isfinite(value)]
    if odd:
        return sum(odd)
    total = sum(map(Fraction, given))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def exact_average(values: Sequence[float | None] | None) -> float | None:
    """The average of all values but NULL."""
    given = [value for value in values or () if value is not None]
    if not given:
        return None
    if not all(map(math.isfinite, given)):
        return exact_sum(given)
    return float(sum(map(Fraction, given)) / len(given))


_FINISH: dict[str, Callable[[Any], Any]] = {
    "as is": _fitting,
    "sum": exact_sum,
    "avg": exact_average,
}

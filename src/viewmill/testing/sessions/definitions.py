"""Compute views again from plain rows: DuckDB for queries, a few lines of Python for the rest.

A definition is plain data, so that it can be stored with the step that creates the view:

reads     the tables and views it reads, by the user's names
duckdb    a query over the oracle's names (`t0`, columns by role); or
window    what `windows.py` computes by brute force; or
parts     what `parts.py` computes; or
pattern   what `patterns.py` computes; or
then      what `by_time.py` computes of the rows of the queries `rows`; or
above     "count" or "all" of a view that Python computes
finish    output column -> "sum", "avg", "decimals" or the name of a moment: DuckDB gives the list
          of values, which are added exactly
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb

from viewmill.testing.oracle import Refused, Row
from viewmill.testing.sessions.by_time import timed_rows
from viewmill.testing.sessions.moments import MOMENTS, moment_of
from viewmill.testing.sessions.parts import part_rows
from viewmill.testing.sessions.patterns import pattern_rows
from viewmill.testing.sessions.windows import window_rows
from viewmill.testing.sessions.world import Table, View, World

_LARGEST = 2**63
_DECIMAL_LIMIT = 10**38
_HAVING = re.compile(r" HAVING .*$")
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET threads = 1;"
    " SET default_null_order = 'nulls_first_on_asc_last_on_desc'"
)
_REFUSALS = (
    duckdb.OutOfRangeException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
)


class Evaluator:
    """The world's views over its rows; an answer is remembered while the tables stay the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.execute(_SETTINGS)
        self._registered: dict[str, Table] = {}
        self._known: dict[str, tuple[View, list[Table], list[Row] | Refused, float]] = {}

    def rows(self, view: View, tables: Mapping[str, Table]) -> list[Row]:
        """The rows of a view over the tables; raises `Refused` if the query has no answer."""
        below = [tables[name] for name in self._world.tables_below(view)]
        known = self._known.get(view.name)
        is_known = known is not None and known[0] is view and known[3] == self._world.now
        if known is None or not is_known or not _are_same(known[1], below):
            known = view, below, self._answer(view, tables), self._world.now
            self._known[view.name] = known
        if isinstance(known[2], Refused):
            raise known[2]
        return known[2]

    def may_be_refused(self, view: View, tables: Mapping[str, Table]) -> bool:
        """Whether an overflow is as right as an answer.

        It is where the sum of a group that HAVING hides does not fit its type, or a sum of
        decimals does not fit on the way to one that does: Spark reports both, DuckDB does not.
        """
        lower = [self._world.views[name] for name in view.reads if name in self._world.views]
        if any(self.may_be_refused(each, tables) for each in lower):
            return True
        if "duckdb" not in view.definition:
            return False
        try:
            for name in view.reads:
                self._provide(name, tables)
            found = self._run(_HAVING.sub("", view.definition["duckdb"]))
            _finished(found, view.definition.get("finish", {}), _FINISH | {"decimals": _magnitude})
        except Refused:
            return True
        return False

    def _answer(self, view: View, tables: Mapping[str, Table]) -> list[Row] | Refused:
        try:
            return self._compute(view, tables)
        except Refused as why:
            return why

    def _compute(self, view: View, tables: Mapping[str, Table]) -> list[Row]:
        definition = view.definition
        if "window" in definition:
            shown = window_rows(definition["window"], tables[view.reads[0]])
            return [tuple(map(_fitting, row)) for row in shown]
        if "parts" in definition:
            return part_rows(view, tables)
        if "pattern" in definition:
            return pattern_rows(view, tables)
        if "above" in definition:
            below = self.rows(self._world.views[view.reads[0]], tables)
            return below if definition["above"] == "all" else [(len(below),)]
        for name in view.reads:
            self._provide(name, tables)
        if "then" in definition:
            sources = [self._run(text)[1] for text in definition["rows"]]
            return timed_rows(definition["then"], sources, self._world.reached(view))
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
        now = f"make_timestamp({round(self._world.now * 1_000_000)}::BIGINT)"
        try:
            found = self._duckdb.execute(query.replace("@now", now))
            names = [column[0] for column in found.description or ()]
            return names, [tuple(row) for row in found.fetchall()]
        except _REFUSALS as why:
            raise Refused(str(why)) from None

    def close(self) -> None:
        """Give DuckDB's memory back."""
        self._duckdb.close()


def _are_same(one: Sequence[Table], other: Sequence[Table]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _finished(
    found: tuple[Sequence[str], list[Row]],
    finish: Mapping[str, str],
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
) -> list[Row]:
    names, rows = found
    functions = functions or _FINISH
    steps: list[Callable[[Any], Any]] = [functions[finish.get(name, "as is")] for name in names]
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


def exact_decimals(values: Sequence[Decimal | None] | None) -> Decimal | None:
    """The sum of decimals of 38 digits; raises `Refused` if it has more."""
    given = [value for value in values or () if value is not None]
    if not given:
        return None
    scale = -int(given[0].as_tuple().exponent)
    total = sum(int(Fraction(value) * 10**scale) for value in given)
    if abs(total) >= _DECIMAL_LIMIT:
        raise Refused("a decimal does not fit 38 digits")
    digits = tuple(map(int, str(abs(total))))
    return Decimal((int(total < 0), digits, -scale))


def _magnitude(values: Sequence[Decimal | None] | None) -> Decimal | None:
    """The sum of absolute values; raises `Refused` if it has more than 38 digits."""
    return exact_decimals([value and value.copy_abs() for value in values or ()])


_FINISH: dict[str, Callable[[Any], Any]] = {
    "as is": _fitting,
    "sum": exact_sum,
    "avg": exact_average,
    "decimals": exact_decimals,
    **{name: moment_of(name) for name in MOMENTS},
}

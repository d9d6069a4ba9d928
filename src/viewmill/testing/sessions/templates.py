"""Shapes of views: one text for Spark and for DuckDB, with places for tables and columns.

`{a}` is a table, `{a.k}` its column of role k, and `{sum:a.d}` or `{avg:a.d}` a float aggregate,
which DuckDB gives as the list of its values, like `{decimals:a.w}`. `<<this||that>>` is this for
Spark and that for DuckDB, where they differ. In a text for DuckDB `@now` stands for the time of the
world's clock.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from viewmill.testing.sessions.names import quoted, respelt
from viewmill.testing.sessions.world import Table

Drawn = tuple[str, dict[str, Any]]  # the query in Spark's dialect, the definition for the oracle

_PLACE = re.compile(r"\{(?:(sum|avg|decimals):)?(\w+)(?:\.(\w+))?\}(?: AS (\w+))?")
_EITHER = re.compile(r"<<(.*?)\|\|(.*?)>>")
_SPARK_NAMES = {"decimals": "SUM"}


def written(rng: random.Random, text: str, tables: Mapping[str, Table]) -> Drawn:
    """A shape over these tables."""
    finish: dict[str, str] = {}

    def named(name: str) -> str:
        return quoted(respelt(rng, name))

    def spark(place: re.Match[str]) -> str:
        function, table, role, alias = place.groups()
        shown = f" AS {alias}" if alias else ""
        if role is None:
            return named(tables[table].name) + shown
        column = f"{table}.{named(tables[table].column(role).name)}"
        called = _SPARK_NAMES.get(function, str(function).upper())
        return (f"{called}({column})" if function else column) + shown

    def duckdb(place: re.Match[str]) -> str:
        function, table, role, alias = place.groups()
        shown = f" AS {alias}" if alias else ""
        if role is None:
            return tables[table].alias + shown
        if function:
            finish[alias] = function
            return f"list({table}.{role}){shown}"
        return f"{table}.{role}{shown}"

    definition = {
        "reads": sorted({table.name for table in tables.values()}),
        "duckdb": _PLACE.sub(duckdb, _EITHER.sub(r"\2", text)),
    }
    return _PLACE.sub(spark, _EITHER.sub(r"\1", text)), definition | (
        {"finish": finish} if finish else {}
    )

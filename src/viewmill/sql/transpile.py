"""Spark SQL text to an engine's dialect, by sqlglot.

takes  Spark SQL over sources by their own names
gives  the same in DuckDB's or Spark's SQL, over the names the engine has them under
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal as OneOf

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.errors import UnsupportedQuery


def transpile(
    text: str, dialect: OneOf["duckdb", "spark"], table_name: Callable[[str], str]
) -> str:
    """The query in the engine's dialect."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
        common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            if isinstance(table.this, exp.Identifier) and table.name.lower() not in common:
                table.set("this", exp.to_identifier(table_name(table.name), quoted=True))
        return tree.sql(dialect)
    except SqlglotError as error:
        raise UnsupportedQuery("the query cannot be translated", detail=str(error)) from error

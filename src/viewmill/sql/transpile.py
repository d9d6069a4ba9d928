"""Spark SQL text to an engine's dialect, by sqlglot.

takes  Spark SQL over sources by their own names
gives  the same in DuckDB's or Spark's SQL, over the names the engine has them under
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal as OneOf

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from viewmill.algebra.types import Type
from viewmill.errors import UnsupportedQuery
from viewmill.sql.common_tables import is_common_table
from viewmill.sql.dialect import PlainSpark
from viewmill.sql.duckdb_calls import as_spark_means, by_python


def transpile(
    text: str, dialect: OneOf["duckdb", "spark"], table_name: Callable[[str], str]
) -> str:
    """The query in the engine's dialect."""

    def named(tree: exp.Expr) -> None:
        for table in list(tree.find_all(exp.Table)):
            if isinstance(table.this, exp.Identifier) and not is_common_table(table):
                table.set("this", exp.to_identifier(table_name(table.name), quoted=True))

    return _translated(text, dialect, named)


def transpile_call(
    text: str,
    dialect: OneOf["duckdb", "spark"],
    arguments: Sequence[str],
    types: Mapping[str, Type],
    where: str | None = None,
) -> str:
    """One call in the engine's dialect; `arguments` are in it already and stand for `@0`, `@1`."""

    def filtered(tree: exp.Expr) -> None:
        if where is not None:
            call = tree.expressions[0]
            met = exp.Where(this=exp.Var(this=where))
            call.replace(exp.Filter(this=call.copy(), expression=met))

    def filled(tree: exp.Expr) -> None:
        for column in list(tree.find_all(exp.Column)):
            field = column.table.startswith("@")
            name = column.table if field else column.name
            if name.startswith("@"):
                given = exp.Var(this=f"({arguments[int(name[1:])]})")
                column.replace(exp.Dot(this=given, expression=column.this) if field else given)

    return _translated(f"SELECT {text}", dialect, filtered, filled, types).removeprefix("SELECT ")


def _translated(
    text: str,
    dialect: OneOf["duckdb", "spark"],
    before: Callable[[exp.Expr], None],
    after: Callable[[exp.Expr], None] | None = None,
    types: Mapping[str, Type] | None = None,
) -> str:
    try:
        tree = sqlglot.parse_one(text, read=PlainSpark)
        before(tree)
        if dialect == "duckdb":
            by_python(tree)
            as_spark_means(tree, types or {})
            _lists_of_nothing(tree)
            _in_parentheses(tree)
        if after is not None:
            after(tree)
        return tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise UnsupportedQuery("the query cannot be translated", detail=str(error)) from error


_RANKED = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift,
           exp.BitwiseRightShift, exp.BitwiseNot, exp.DPipe)  # fmt: skip


def _in_parentheses(tree: exp.Expr) -> None:
    """Operators that DuckDB ranks otherwise, inside others."""
    for node in reversed(list(tree.find_all(*_RANKED))):  # from the inside out
        parent = node.parent
        is_inside = isinstance(parent, exp.Binary | exp.Unary) and not isinstance(parent, exp.Paren)
        is_chain = type(parent) is type(node) and node.arg_key == "this"
        if is_inside and not is_chain:
            node.replace(exp.Paren(this=node.copy()))


def _lists_of_nothing(tree: exp.Expr) -> None:
    """A list of no values is empty to Spark, NULL to DuckDB."""
    for node in list(tree.find_all(exp.ArrayAgg, exp.ArrayUniqueAgg)):
        inside = node.parent if isinstance(node.parent, exp.Filter) else node
        if not isinstance(inside.parent, exp.Window):
            some = exp.Coalesce(this=inside.copy(), expressions=[exp.Array(expressions=[])])
            inside.replace(some)

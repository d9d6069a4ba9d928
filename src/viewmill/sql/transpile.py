"""Spark SQL text to an engine's dialect, by sqlglot.

takes  Spark SQL over sources by their own names
gives  the same in DuckDB's or Spark's SQL, over the names the engine has them under
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal as OneOf

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from viewmill.errors import UnsupportedQuery
from viewmill.program.rare_functions import RARE
from viewmill.sql.dialect import PlainSpark
from viewmill.sql.functions import BUILDERS
from viewmill.sql.read_functions import read_function
from viewmill.sql.render_names import python_name

# DuckDB has them too, and means something else.
_MEANS_OTHERWISE = frozenset({
    "format", "format_string", "hash", "kurtosis", "printf", "product", "skewness",
    "to_char", "to_number",
})  # fmt: skip


def transpile(
    text: str, dialect: OneOf["duckdb", "spark"], table_name: Callable[[str], str]
) -> str:
    """The query in the engine's dialect."""
    try:
        tree = sqlglot.parse_one(text, read=PlainSpark)
        common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            if isinstance(table.this, exp.Identifier) and table.name.lower() not in common:
                table.set("this", exp.to_identifier(table_name(table.name), quoted=True))
        if dialect == "duckdb":
            _by_python(tree)
            _refuse_other_meanings(tree)
            _lists_of_nothing(tree)
            _in_parentheses(tree)
        return tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise UnsupportedQuery("the query cannot be translated", detail=str(error)) from error


def _refuse_other_meanings(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Func):
        name, _ = read_function(node)
        if name in _MEANS_OTHERWISE:
            raise UnsupportedQuery(
                f"DuckDB's {name} is not Spark's",
                hint="Connect with vm.connect(spark=...): then Spark computes it.",
            )
    for lateral in tree.find_all(exp.Lateral):
        if lateral.args.get("outer"):
            raise UnsupportedQuery(
                "DuckDB has no LATERAL VIEW OUTER",
                hint="Without OUTER it works; or connect with vm.connect(spark=...).",
            )


def _by_python(tree: exp.Expr) -> None:
    """Functions that are Spark's by way of Python, where their types are always the same."""
    for node in reversed(list(tree.find_all(exp.Func))):
        name, arguments = read_function(node)
        rare = RARE.get(name) if name not in BUILDERS else None
        if rare is not None and rare.least <= len(arguments) <= len(rare.parameters):
            own = python_name(name, len(arguments))
            node.replace(exp.Anonymous(this=own, expressions=arguments))


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

"""Functions that the algebra does not model, as DuckDB must write them to mean Spark's.

takes  a sqlglot tree of Spark SQL; the types of the columns `@0`, `@1` where they are known
does   puts macros of `sql.duckdb_macros` in, or refuses what DuckDB means otherwise
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp

from viewmill.algebra.types import Integer, Nested, Type
from viewmill.errors import UnsupportedQuery
from viewmill.program.python_functions import PYTHON_FUNCTIONS
from viewmill.sql.data_types import type_of
from viewmill.sql.functions import BUILDERS
from viewmill.sql.read_functions import read_function
from viewmill.sql.render_names import python_name
from viewmill.sql.render_nested import has_nested_elements, sorted_by_key

# What DuckDB computes as Spark does, by the names of `read_function`.
_SAME = frozenset({
    "array", "array_append", "array_compact", "array_max", "array_min", "array_prepend",
    "array_sort", "array_to_string", "bitwise_and_agg", "bitwise_or_agg", "bitwise_xor_agg",
    "coalesce", "collect_list", "count", "explode", "filter", "listagg", "map", "map_entries",
    "map_from_entries", "map_keys", "map_values", "max", "min", "posexplode", "rand", "reduce",
    "struct", "transform", "uuid", "var_map",
})  # fmt: skip

# Macros by the names of `read_function`.
_MACROS = {
    "array_contains": "spark_array_contains", "array_distinct": "spark_array_distinct",
    "array_except": "spark_array_except", "array_intersect": "spark_array_intersect",
    "array_position": "spark_array_position", "array_remove": "spark_array_remove",
    "array_repeat": "spark_array_repeat", "array_slice": "spark_array_slice",
    "array_union": "spark_array_union", "flatten": "spark_array_flatten",
    "get": "spark_array_get", "map_contains_key": "spark_map_contains_key",
}  # fmt: skip

# What a lambda may be made of.
_IN_LAMBDAS = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.Null, exp.Boolean, exp.Literal, exp.Identifier,
    exp.Column, exp.Dot, exp.Lambda, exp.Var,
)  # fmt: skip
_PARAMETERS = {"transform": 1, "filter": 1, "reduce": 2}

_BY_SPARK = "Connect with vm.connect(spark=...): then Spark computes it."

Types = Mapping[str, Type]


def as_spark_means(tree: exp.Expr, types: Types) -> None:
    """Change the tree to what DuckDB must be told, or raise UnsupportedQuery."""
    types = {**types, **_written_types(tree)}
    for node in reversed(list(tree.find_all(exp.Func, exp.Bracket))):  # from the inside out
        name, arguments = read_function(node)
        adapt = _size if name == "cardinality" else _ADAPTED.get(type(node))
        if adapt is not None:
            adapt(node, types)
        elif name in _MACROS:
            node.replace(_macro(_MACROS[name], *arguments))
        elif not (name in _SAME or _is_plain(node)):
            shown = "CAST" if isinstance(node, exp.Cast) else name
            raise _refusal(shown, in_query=tree.find(exp.Table) is not None)
        elif name in _PARAMETERS:
            _check_lambda(node, name)
    for lateral in tree.find_all(exp.Lateral):
        if lateral.args.get("outer"):
            raise UnsupportedQuery(
                "DuckDB has no LATERAL VIEW OUTER",
                hint="Without OUTER it works; or connect with vm.connect(spark=...).",
            )


def by_python(tree: exp.Expr) -> None:
    """Functions that are Spark's by way of Python, where their types are always the same."""
    for node in reversed(list(tree.find_all(exp.Func))):
        name, arguments = read_function(node)
        python = PYTHON_FUNCTIONS.get(name) if name not in BUILDERS else None
        if python is not None and python.least <= len(arguments) <= len(python.parameters):
            node.replace(_macro(python_name(name, len(arguments)), *arguments))


def _refusal(name: str, *, in_query: bool = False) -> UnsupportedQuery:
    around = "Compute it around a subquery in FROM that has what only the engine knows. "
    hint = around * in_query + _BY_SPARK
    return UnsupportedQuery(f"DuckDB's {name} is not Spark's", hint=hint)


def _macro(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _is_plain(node: exp.Expr) -> bool:
    """AND, OR, a NULL with its type, a function that the session defines."""
    if isinstance(node, exp.Cast):
        return isinstance(node.this, exp.Null)
    is_ours = isinstance(node, exp.Anonymous) and node.name.startswith("spark_")
    return is_ours or isinstance(node, exp.Connector)


def _check_lambda(node: exp.Expr, name: str) -> None:
    """Lambdas are DuckDB's own, so they hold only what means the same to it."""
    for each in node.find_all(exp.Lambda):
        inside = [part for part in each.walk() if not isinstance(part, _IN_LAMBDAS)]
        if inside or len(each.expressions) != _PARAMETERS[name]:
            raise UnsupportedQuery(
                f"{name} with this lambda is not Spark's in DuckDB",
                detail="It may hold comparisons, + - *, AND, OR and NOT, and no position.",
                hint=_BY_SPARK,
            )


def _written_types(tree: exp.Expr) -> Types:
    """The types of columns that are a NULL of some type."""
    casts = (each for each in tree.find_all(exp.Alias) if isinstance(each.this, exp.Cast))
    return {each.alias: type_of(each.this.args["to"]) for each in casts}


def _type_of(node: exp.Expr, types: Types) -> Type | None:
    return types.get(node.name) if isinstance(node, exp.Column) else None


def _is_map(node: exp.Expr, types: Types) -> bool:
    type_ = _type_of(node, types)
    return isinstance(type_, Nested) and type_.name.upper().startswith("MAP")


def _subscript(node: exp.Expr, types: Types) -> None:
    """a[i] counts from 0, element_at(a, i) from 1; outside of the array both are errors."""
    if _is_map(node.this, types):
        node.replace(_macro("spark_map_value", node.this, *node.expressions))
        return
    names = {0: "spark_array_at", 1: "spark_array_element"}
    name = names[int(node.args.get("offset") or 0)]
    lenient = "spark_array_try_element"
    node.replace(_macro(lenient if node.args.get("safe") else name, node.this, *node.expressions))


def _size(node: exp.Expr, types: Types) -> None:
    inner = node.this if not isinstance(node, exp.Anonymous) else node.expressions[0]
    node.replace(_macro("cardinality" if _is_map(inner, types) else "len", inner))


def _sequence(node: exp.Expr, types: Types) -> None:
    """Whole numbers only; without a step it goes up or down."""
    start, end, step = node.args.get("start"), node.args.get("end"), node.args.get("step")
    given = [each for each in (start, end, step) if isinstance(each, exp.Expr)]
    known = [_type_of(each, types) for each in given]
    if any(each is not None and not isinstance(each, Integer) for each in known):
        raise _refusal("sequence of anything but whole numbers")
    node.replace(_macro(f"spark_sequence_{len(given)}", *given))


_SPECIAL_IN_PATTERNS = frozenset("\\^$.|?*+()[]{}")


def _split(node: exp.Expr, types: Types) -> None:
    """A pattern that is a plain text, of which DuckDB and Java think the same."""
    pattern = node.expression
    is_text = isinstance(pattern, exp.Literal) and pattern.is_string and pattern.name
    if node.args.get("limit") is not None or not is_text or _SPECIAL_IN_PATTERNS & {*pattern.name}:
        raise _refusal("split by a pattern")
    node.replace(_macro("string_split", node.this, pattern))


def _sorted(node: exp.Expr, types: Types) -> None:
    """array_sort puts NULL last, sort_array first where it goes up."""
    if node.find(exp.Lambda) is not None:
        raise _refusal("array_sort with a lambda")
    nulls_first, asc = node.args.get("nulls_first"), node.args.get("asc")
    type_ = _type_of(node.this, types)
    if isinstance(type_, Nested) and has_nested_elements(type_):
        if asc is None and isinstance(nulls_first, exp.Boolean) and not nulls_first.this:
            raise _refusal("array_sort of structs and arrays")
        down = isinstance(asc, exp.Boolean) and not asc.this
        made = sorted_by_key(node.this.sql("duckdb"), type_, "DESC" if down else "ASC")
        node.replace(sqlglot.parse_one(made, read="duckdb"))
        return
    if asc is None and isinstance(nulls_first, exp.Boolean) and not nulls_first.this:
        node.replace(_macro("spark_array_sort", node.this))


def _without_parts(node: exp.Expr, types: Types) -> None:
    """DuckDB takes a NULL inside a struct for more than any value, and Spark for less."""
    if has_nested_elements(_type_of(node.this, types)):
        raise _refusal("order of structs and arrays inside an array")


_ADAPTED: dict[type[exp.Expr], Callable[[exp.Expr, Types], None]] = {
    exp.Bracket: _subscript,
    exp.ArraySize: _size,
    exp.GenerateSeries: _sequence,
    exp.RegexpSplit: _split,
    exp.ArraySort: _sorted,
    exp.ArrayMax: _without_parts,
    exp.ArrayMin: _without_parts,
}

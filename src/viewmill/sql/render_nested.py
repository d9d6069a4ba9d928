"""Structs and arrays as DuckDB must compare them to order them as Spark does.

takes  DuckDB SQL of a value, its type
gives  DuckDB SQL of a key: a NULL inside comes before every value, names of fields do not matter
"""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from viewmill.algebra.types import Nested, Type


def order_key(text: str, type_: Type) -> str:
    """What orders the value; the value itself where it has no parts."""
    return _key(text, _parsed(type_.name), 0) if isinstance(type_, Nested) else text


def sorted_by_key(text: str, type_: Nested, direction: str) -> str:
    """An array whose elements have parts, in order."""
    pair = f"row({_part('x', _parsed(type_.name).expressions[0], 0)}, x)"
    pairs = f"list_sort(list_transform({text}, lambda x: {pair}), '{direction}')"
    return f"list_transform({pairs}, lambda x: struct_extract_at(x, 2))"


def has_nested_elements(type_: Type | None) -> bool:
    """Whether it is an array of structs or of arrays."""
    if not isinstance(type_, Nested):
        return False
    parsed = _parsed(type_.name)
    return parsed.this == exp.DataType.Type.ARRAY and any(
        each.this in (exp.DataType.Type.ARRAY, exp.DataType.Type.STRUCT)
        for each in parsed.expressions
    )


def is_map(type_: Type) -> bool:
    """Whether it is a map."""
    return isinstance(type_, Nested) and _parsed(type_.name).this == exp.DataType.Type.MAP


@cache
def _parsed(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")


def _key(text: str, type_: exp.DataType, depth: int) -> str:
    if type_.this == exp.DataType.Type.ARRAY and type_.expressions:
        element = f"e{depth}"
        inner = _part(element, type_.expressions[0], depth + 1)
        return f"list_transform({text}, lambda {element}: {inner})"
    if type_.this == exp.DataType.Type.STRUCT:
        fields = enumerate(type_.expressions, 1)
        parts = [_part(f"struct_extract_at({text}, {i})", each, depth) for i, each in fields]
        return f"CASE WHEN {text} IS NOT NULL THEN row({', '.join(parts)}) END"
    return text


def _part(text: str, node: exp.Expr, depth: int) -> str:
    """A field or an element; FALSE comes before TRUE."""
    type_ = node.args["kind"] if isinstance(node, exp.ColumnDef) else node
    assert isinstance(type_, exp.DataType)
    return f"row({text} IS NOT NULL, {_key(text, type_, depth)})"

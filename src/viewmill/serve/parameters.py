"""Parameters of prepared statements.

takes  a tree with places for parameters, and their values
gives  the tree with the values as literals: a value never becomes SQL text
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlglot import exp

from viewmill.serve import values
from viewmill.serve.client_sql import parameter_number
from viewmill.serve.failures import Refused

_TREE = TypeVar("_TREE", bound=exp.Expr)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_COUNTS = (exp.Limit, exp.Offset)
_OIDS_OF_CASTS = {
    exp.DType.BOOLEAN: values.BOOL,
    exp.DType.SMALLINT: values.INT2,
    exp.DType.INT: values.INT4,
    exp.DType.BIGINT: values.INT8,
    exp.DType.FLOAT: values.FLOAT4,
    exp.DType.DOUBLE: values.FLOAT8,
    exp.DType.DECIMAL: values.NUMERIC,
    exp.DType.DATE: values.DATE,
    exp.DType.TIMESTAMP: values.TIMESTAMP,
}
_CASTS = {oid: type_ for type_, oid in _OIDS_OF_CASTS.items()}


def with_values(tree: _TREE, given: Sequence[Any]) -> _TREE:
    """A copy of the tree with literals in place of parameters."""
    made = tree.copy()
    for node in list(made.walk()):
        number = parameter_number(node)
        if number is not None:
            _replace(node, _required(given, number))
    return made


def _required(given: Sequence[Any], number: int) -> Any:
    if number > len(given):
        raise Refused("08P01", f"parameter ${number} has no value")
    return given[number - 1]


def _replace(node: exp.Expr, value: Any) -> None:
    around = node.parent
    while isinstance(around, exp.Cast | exp.Paren):  # ANY ($1::text[])
        around = around.parent
    if isinstance(value, list) and isinstance(around, exp.Any):
        compared = around.parent
        if isinstance(compared, exp.EQ) and compared.expression is around:
            members = [literal(each) for each in value] or [exp.Null()]
            compared.replace(exp.In(this=compared.this.copy(), expressions=members))
            return
    node.replace(literal(value))


def literal(value: Any) -> exp.Expr:
    """A Python value as a node."""
    for kind, write in _LITERALS:
        if isinstance(value, kind):
            return write(value)
    raise Refused("0A000", f"a parameter of type {type(value).__name__} is not supported")


def _number(value: Any) -> exp.Expr:
    made = exp.Literal.number(format(abs(value), "f") if value % 1 else str(abs(int(value))))
    return exp.Paren(this=exp.Neg(this=made)) if value < 0 else made


def _decimal(value: decimal.Decimal) -> exp.Expr:
    text = format(abs(value), "f")
    made = exp.Literal.number(text)
    return exp.Paren(this=exp.Neg(this=made)) if value < 0 else made


def _float(value: float) -> exp.Expr:
    if not math.isfinite(value):
        word = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return exp.cast(exp.Literal.string(word), exp.DType.DOUBLE)
    text = repr(abs(value))
    made = exp.Literal.number(text if "e" in text else f"{text}e0")
    return exp.Paren(this=exp.Neg(this=made)) if math.copysign(1, value) < 0 else made


def _moment(value: dt.datetime) -> exp.Expr:
    return exp.cast(exp.Literal.string(value.isoformat(" ")), exp.DType.TIMESTAMP)


_LITERALS: tuple[tuple[type, Callable[[Any], exp.Expr]], ...] = (
    (type(None), lambda value: exp.Null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, _number),
    (float, _float),
    (decimal.Decimal, _decimal),
    (dt.datetime, _moment),
    (dt.date, lambda value: exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)),
    (str, exp.Literal.string),
    (bytes, lambda value: exp.HexString(this=value.hex())),
    (list, lambda value: exp.Array(expressions=[literal(each) for each in value])),
)


# Before values are known.


def parameter_types(
    tree: exp.Expr, count: int, said: Sequence[int], type_of: Callable[[exp.Column], int | None]
) -> list[int]:
    """The types of the parameters: what the client said, else what they are compared with."""
    found = [*said[:count], *[0] * (count - len(said))]
    for node in tree.walk():
        number = parameter_number(node)
        if number is not None and not found[number - 1]:
            found[number - 1] = _type_around(node, type_of) or 0
    return [each or values.TEXT for each in found]


def _type_around(node: exp.Expr, type_of: Callable[[exp.Column], int | None]) -> int | None:
    around = node.parent
    if isinstance(around, exp.Cast):
        return _OIDS_OF_CASTS.get(around.to.this)
    if isinstance(around, _COUNTS):
        return values.INT8
    if not isinstance(around, _COMPARISONS):
        return None
    others = (each for each in around.iter_expressions() if isinstance(each, exp.Column))
    return next((type_of(each) for each in others if parameter_number(each) is None), None)


def with_unknown(tree: _TREE, types: Sequence[int]) -> _TREE:
    """A copy of the tree with typed NULLs in place of parameters: its columns are the same."""
    made = tree.copy()
    for node in list(made.walk()):
        number = parameter_number(node)
        if number is None:
            continue
        if isinstance(node.parent, _COUNTS):
            node.replace(exp.Literal.number("1"))
            continue
        type_ = _CASTS.get(types[number - 1], exp.DType.TEXT)
        is_list = types[number - 1] in values.ELEMENTS
        node.replace(literal([]) if is_list else exp.cast(exp.Null(), type_))
    return made

"""sqlglot's data types as ours.

takes  exp.DataType
gives  algebra Type; structs, arrays, maps and binary become Nested under Spark's spelling
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Decimal,
    Integer,
    Nested,
    Type,
)
from viewmill.errors import Span, TypeMismatch, UnknownName
from viewmill.sql.decimals import MAX_PRECISION

_D = exp.DataType.Type
_SIMPLE: dict[object, Type] = {
    _D.BOOLEAN: BOOLEAN, _D.TINYINT: Integer(8), _D.SMALLINT: Integer(16), _D.INT: INT,
    _D.BIGINT: BIGINT, _D.FLOAT: FLOAT, _D.DOUBLE: DOUBLE, _D.TEXT: STRING, _D.VARCHAR: STRING,
    _D.CHAR: STRING, _D.DATE: DATE, _D.TIMESTAMP: TIMESTAMP, _D.TIMESTAMPTZ: TIMESTAMP,
    _D.TIMESTAMPLTZ: TIMESTAMP, _D.TIMESTAMPNTZ: TIMESTAMP, _D.DATETIME: TIMESTAMP,
    _D.INTERVAL: INTERVAL, _D.NULL: NULL,
}  # fmt: skip
_NESTED = {_D.ARRAY, _D.STRUCT, _D.MAP, _D.BINARY, _D.VARBINARY, _D.VARIANT}


def type_of(node: exp.DataType, span: Span | None = None) -> Type:
    """The algebra's type, or an error that names what is not one."""
    kind = node.this
    if kind == _D.DECIMAL:
        return _decimal(node, span)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _NESTED:
        return Nested(node.sql("spark"))
    raise UnknownName(f'there is no type "{node.sql("spark")}"', span=span)


def _decimal(node: exp.DataType, span: Span | None) -> Decimal:
    numbers = [int(each.this.name) for each in node.expressions]
    precision, scale = ([*numbers, 0] if len(numbers) == 1 else numbers) or [10, 0]
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise TypeMismatch(
            f"DECIMAL({precision},{scale}) is not a type",
            detail=f"The precision is 1 to {MAX_PRECISION}, the scale 0 to the precision.",
            span=span,
        )
    return Decimal(precision, scale)

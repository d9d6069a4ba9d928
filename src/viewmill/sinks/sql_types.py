"""Which type a column of a view has in an SQL database."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

from viewmill.errors import UnsupportedQuery

_TYPES: dict[pa.DataType, TypeEngine[Any]] = {
    pa.bool_(): sa.Boolean(),
    pa.int8(): sa.SmallInteger(),
    pa.int16(): sa.SmallInteger(),
    pa.int32(): sa.Integer(),
    pa.int64(): sa.BigInteger(),
    pa.float32(): sa.Double(),
    pa.float64(): sa.Double(),
    pa.string(): sa.Text(),
    pa.date32(): sa.Date(),
    pa.binary(): sa.LargeBinary(),
    pa.null(): sa.Text(),
}


class ExactDecimal(TypeDecorator[decimal.Decimal]):
    """NUMERIC, but text in SQLite, whose numbers are floats."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Text in SQLite."""
        kind = sa.Text() if dialect.name == "sqlite" else self.impl_instance
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: decimal.Decimal | None, dialect: sa.Dialect) -> Any:
        """All digits as text, or the number."""
        return format(value, "f") if dialect.name == "sqlite" and value is not None else value


def sql_type(view: str, field: pa.Field) -> TypeEngine[Any]:
    """The type of a column; times are UTC without a zone."""
    if pa.types.is_decimal(field.type):
        return ExactDecimal(field.type.precision, field.type.scale)
    if pa.types.is_timestamp(field.type):
        return sa.DateTime()
    found = _TYPES.get(field.type)
    if found is None:
        raise UnsupportedQuery(
            f'column "{field.name}" of view "{view}" has no type in SQL databases: {field.type}',
            hint="Select its parts, or its text by CAST(... AS STRING).",
        )
    return found

"""Moments on shards: cofactor() and linear_regression() as the sum of what shards know.

takes  a call of one of them
gives  the cofactors that each shard keeps, and the aggregate that adds them up in the driver

What shards give lies in a table, which holds numbers: the count, the sums and the products of a
cofactor are columns of their own there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from viewmill.algebra import expressions as e
from viewmill.algebra.packed import Moments, Packed, cofactor_type
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import DOUBLE, Type

MERGE = "merge_moments"


def moments_of(type_: Type) -> Moments | None:
    """The moments that a type holds, if it does."""
    if isinstance(type_, Packed) and isinstance(type_.shape, Moments):
        return type_.shape
    return None


def of_part(call: e.Aggregate) -> e.Aggregate:
    """What a shard keeps: never solved, so that it can be added."""
    shape = moments_of(call.type)
    assert shape is not None
    return replace(call, function="cofactor", type=cofactor_type(shape.names))


def merged_moments(name: str, call: e.Aggregate) -> e.Aggregate:
    """What all shards know together, over the columns of a gathering table."""
    shape = moments_of(call.type)
    assert shape is not None
    numbers = tuple(e.Column(number_of(name, i), DOUBLE, False) for i in range(shape.width))
    return e.Aggregate(MERGE, numbers, call.type, call.nullable, span=call.span)


def number_of(name: str, i: int) -> str:
    """The column that holds one number of a cofactor."""
    return f"{name}_{i}"


def gathered_schema(schema: Schema) -> Schema:
    """The columns of the table in which the rows of a schema are gathered."""
    return Schema(tuple(field for each in schema for field in _gathered(each)))


def _gathered(field: Field) -> Iterator[Field]:
    shape = moments_of(field.type)
    if shape is None:
        yield field
        return
    for i in range(shape.width):
        yield Field(number_of(field.name, i), DOUBLE, nullable=False)

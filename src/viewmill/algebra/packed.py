"""Values that take several words side by side: the moments of columns.

A nested value is otherwise one word, the id of its printed form in the dictionary. What a view
changes with every batch must not be printed and kept every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested

_COFACTOR = "STRUCT<n:BIGINT,names:ARRAY<STRING>,sums:ARRAY<DOUBLE>,products:ARRAY<DOUBLE>>"
_REGRESSION = (
    "STRUCT<n:BIGINT,label:STRING,names:ARRAY<STRING>,intercept:DOUBLE,"
    "coefficients:ARRAY<DOUBLE>,r2:DOUBLE>"
)

# A number this large has no square. A row that holds one, NaN or NULL has no moments.
LARGEST = 1e150


@dataclass(frozen=True)
class Moments:
    """The count of rows, and the sums and products of columns.

    Words: n, the sums, the upper triangle of the products by rows. `is_solved` shows them as the
    linear regression of the first column on the others.
    """

    names: tuple[str, ...]
    is_solved: bool = False

    @property
    def width(self) -> int:
        """How many words."""
        m = len(self.names)
        return 1 + m + m * (m + 1) // 2


@dataclass(frozen=True)
class Packed(Nested):
    """A nested type whose values are `width` words of floats."""

    shape: Moments

    @property
    def width(self) -> int:
        """How many words a value takes."""
        return self.shape.width

    @property
    def carrier(self) -> str:
        """The type in which an engine computes it."""
        return _COFACTOR


def cofactor_type(names: Sequence[str]) -> Packed:
    """The type of cofactor(names)."""
    return Packed(_COFACTOR, Moments(tuple(names)))


def regression_type(names: Sequence[str]) -> Packed:
    """The type of linear_regression(label, names ...)."""
    return Packed(_REGRESSION, Moments(tuple(names), is_solved=True))


def shown_schema(schema: Schema) -> Schema:
    """A schema as it is to those who read finished values."""
    fields = (
        replace(each, type=Nested(each.type.name)) if isinstance(each.type, Packed) else each
        for each in schema
    )
    return Schema(tuple(fields))

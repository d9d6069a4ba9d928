"""The type of cofactor() over numbers and categories: moments by category and by pair of them.

A category is not a column of 0 and 1 for each of its values, nor are there groups of combinations:
for each value there are the moments of the rows that have it, and for each pair of values that
occurs how many rows have both.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from viewmill.algebra.types import (
    Boolean,
    Date,
    Integer,
    Nested,
    String,
    Type,
)

FUNCTION = "mixed_cofactor"

_LEVELS = "ARRAY<STRUCT<value:STRING,n:BIGINT,sums:ARRAY<DOUBLE>>>"
_COUNTS = "ARRAY<STRUCT<a:STRING,b:STRING,n:BIGINT>>"
_NAME = (
    "STRUCT<n:BIGINT,names:ARRAY<STRING>,sums:ARRAY<DOUBLE>,products:ARRAY<DOUBLE>,"
    f"categories:ARRAY<STRUCT<name:STRING,type:STRING,levels:{_LEVELS}>>,"
    f"pairs:ARRAY<STRUCT<a:STRING,b:STRING,counts:{_COUNTS}>>>"
)


@dataclass(frozen=True)
class MixedMoments(Nested):
    """The struct that is shown, and which columns it is of: numbers, and categories by type."""

    numbers: tuple[str, ...] = ()
    categories: tuple[tuple[str, str], ...] = ()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which categories are counted together, by position."""
        return list(combinations(range(len(self.categories)), 2))


def mixed_type(numbers: list[str], categories: list[tuple[str, Type]]) -> MixedMoments:
    """The type over these columns."""
    named = tuple((name, str(type_)) for name, type_ in categories)
    return MixedMoments(_NAME, tuple(numbers), named)


def can_be_category(type_: Type) -> bool:
    """Whether columns of a type may be categories: their values have one spelling each."""
    return isinstance(type_, String | Integer | Boolean | Date)

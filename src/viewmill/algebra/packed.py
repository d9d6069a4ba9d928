"""Values that take several words side by side: the moments of columns, what a user's ring shows.

A nested value is otherwise one word, the id of its printed form in the dictionary. What a view
changes with every batch must not be printed and kept every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.rings import RingCall
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BIGINT, DOUBLE, Nested, Type

_COFACTOR = "STRUCT<n:BIGINT,names:ARRAY<STRING>,sums:ARRAY<DOUBLE>,products:ARRAY<DOUBLE>>"
_COMPUTED = _COFACTOR[:-1] + ",central:ARRAY<DOUBLE>>"
_REGRESSION = (
    "STRUCT<n:BIGINT,label:STRING,names:ARRAY<STRING>,intercept:DOUBLE,"
    "coefficients:ARRAY<DOUBLE>,r2:DOUBLE>"
)

# A number this large has no square. A row that holds one, NaN or NULL has no moments.
LARGEST = 1e150


@dataclass(frozen=True)
class Moments:
    """The count of rows, and the sums and products of columns.

    Words: n, the sums, the upper triangle of the products by rows, then what rounding took from
    each. `is_solved` shows them as the linear regression of the first column on the others.
    """

    names: tuple[str, ...]
    is_solved: bool = False
    is_single = False

    @property
    def size(self) -> int:
        """How many numbers."""
        m = len(self.names)
        return 1 + m + m * (m + 1) // 2

    @property
    def width(self) -> int:
        """How many words: each number has two."""
        return 2 * self.size

    @property
    def carrier(self) -> str:
        """The type in which an engine computes them: also the products around the means, or an
        empty list if it does not know them."""
        return _COMPUTED


@dataclass(frozen=True)
class Packed(Nested):
    """A type whose values are `width` words of floats, or a single number that only we compute."""

    shape: Moments | RingCall

    @property
    def width(self) -> int:
        """How many words a value takes."""
        return self.shape.width

    @property
    def carrier(self) -> str:
        """The type in which an engine computes it."""
        return self.shape.carrier

    @property
    def is_single(self) -> bool:
        """Whether a value is one number: its column is like that of any number."""
        return self.shape.is_single

    @property
    def shown(self) -> Type:
        """The type that readers of a finished value see."""
        if self.is_single:
            return DOUBLE if self.name == "DOUBLE" else BIGINT
        return Unpacked(self.name)


@dataclass(frozen=True)
class Unpacked(Nested):
    """A packed value as a query over the view sees it: an engine reads it whole, kernels do not."""


def ring_type(call: RingCall) -> Packed:
    """The type of a user's ring."""
    return Packed(call.result, call)


def cofactor_type(names: Sequence[str]) -> Packed:
    """The type of cofactor(names)."""
    return Packed(_COFACTOR, Moments(tuple(names)))


def regression_type(names: Sequence[str]) -> Packed:
    """The type of linear_regression(label, names ...)."""
    return Packed(_REGRESSION, Moments(tuple(names), is_solved=True))


def shown_schema(schema: Schema) -> Schema:
    """The schema that readers of finished values see."""
    fields = (
        replace(each, type=each.type.shown) if isinstance(each.type, Packed) else each
        for each in schema
    )
    return Schema(tuple(fields))

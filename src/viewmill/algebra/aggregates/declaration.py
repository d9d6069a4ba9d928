"""What an aggregate function declares: everything that the rest of the project asks about it.

takes  nothing: a file of this folder names its functions in `AGGREGATES`
gives  `AggregateFunction`, which typing, rewriting, code generation, sharding and rendering read
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.algebra.types import Type

# A whole number of any width, a condition, or anything that becomes a DOUBLE.
Takes = OneOf["whole", "boolean", "double"]


@dataclass(frozen=True)
class Linear:
    """COUNTs and SUMs that together make an aggregate.

    Rows add to them and take away from them, and partial ones are added up, so an aggregate that
    has them works wherever COUNT and SUM work. `finish` gets them in the order of `parts`.
    """

    parts: tuple[Aggregate, ...]
    finish: Callable[[Sequence[Expression]], Expression]


@dataclass(frozen=True)
class Moments:
    """What an aggregate makes of sums of powers and products, which are kept exactly.

    Its first argument is y, the second x; rows with a NULL among them do not count. In the texts,
    which are Python, {n} is the number of rows, {my} and {mx} are the means, {yy}, {xx} and {xy}
    the sums of products of what lies between values and their means, {yyy} and {yyyy} the sums of
    its third and fourth powers.
    """

    value: str
    divisor: str = ""  # NULL where this is zero
    least: int = 1  # NULL with fewer rows
    special: OneOf["nan", "null"] = "nan"  # if a value is NaN or infinite

    @property
    def has_shape(self) -> bool:
        """Whether it needs third and fourth powers."""
        return "{yyy" in self.value

    def reads(self, name: str) -> bool:
        """Whether a name stands in its texts."""
        return f"{{{name}}}" in self.value or f"{{{name}}}" in self.divisor


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate function, by its name in Spark."""

    name: str
    takes: tuple[Takes, ...]
    gives: Type | None = None  # None: the type of its first argument
    nullable: bool = True
    synonyms: tuple[str, ...] = ()
    counts_repeats: bool = True  # False: DISTINCT makes no difference
    linear: Callable[[Aggregate], Linear] | None = None
    moments: Moments | None = None
    # Over a frame, in Python: what two parts of it make together, and what is left of {a} when {b},
    # which was in it, leaves. Without an `inverse` the frame is walked through again.
    combine: str = ""
    inverse: str = ""
    # Its text in DuckDB. {call} is DuckDB's function of the same name, {0} and {1} are arguments,
    # {distinct} stands before and {suffix}, which is FILTER or OVER, behind a function's arguments.
    duckdb: str = "{call}"

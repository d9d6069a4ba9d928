"""BOOL_AND and BOOL_OR: how many values are false, how many are true."""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.algebra.aggregates.declaration import AggregateFunction, Linear
from viewmill.algebra.aggregates.parts import compared, count_where, counted, if_any
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.types import BIGINT, BOOLEAN


def _all(call: Aggregate) -> Linear:
    """All are true if none is false."""
    value = call.arguments[0]
    is_false = Call("not", (value,), BOOLEAN, value.nullable)

    def finish(counts: Sequence[Expression]) -> Expression:
        values, false = counts
        return if_any(values, compared("=", false, Literal(0, BIGINT)))

    return Linear((counted(call), count_where(call, is_false)), finish)


def _some(call: Aggregate) -> Linear:
    def finish(counts: Sequence[Expression]) -> Expression:
        values, true = counts
        return if_any(values, compared(">", true, Literal(0, BIGINT)))

    return Linear((counted(call), count_where(call, call.arguments[0])), finish)


AGGREGATES = (
    AggregateFunction(
        "bool_and", ("boolean",), BOOLEAN, synonyms=("every", "logical_and"), counts_repeats=False,
        linear=_all, combine="{a} and {b}",
    ),
    AggregateFunction(
        "bool_or", ("boolean",), BOOLEAN, synonyms=("some", "any", "logical_or"),
        counts_repeats=False, linear=_some, combine="{a} or {b}",
    ),
)  # fmt: skip

"""The counts of which linear aggregates are made, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.conditions import conjunction
from viewmill.algebra.expressions import Aggregate, Call, Case, Expression, Literal
from viewmill.algebra.types import BIGINT, BOOLEAN


def counted(call: Aggregate) -> Aggregate:
    """How many values a call aggregates: those that are not NULL."""
    return replace(call, function="count", type=BIGINT, nullable=False)


def count_where(call: Aggregate, condition: Expression) -> Aggregate:
    """How many of the rows that a call aggregates meet a condition."""
    where = condition if call.where is None else conjunction(call.where, condition)
    return replace(counted(call), arguments=(), where=where)


def compared(sign: str, left: Expression, right: Expression) -> Expression:
    """A comparison."""
    return Call(sign, (left, right), BOOLEAN, left.nullable or right.nullable)


def if_any(values: Expression, result: Expression) -> Expression:
    """The result, NULL if there are no values."""
    some = compared(">", values, Literal(0, BIGINT))
    return Case(((some, result),), Literal(None, result.type), result.type, nullable=True)

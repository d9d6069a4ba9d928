"""The clock of a mill as a part of expressions: `now()` in a view.

A view that compares columns with `now()` changes when time passes, without any change of a table.
Its time is that of its last refresh, so it equals its query at that moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Call, Expression, Literal, walk
from viewmill.algebra.relations import Filter, Recursion, Relation
from viewmill.algebra.types import TIMESTAMP
from viewmill.algebra.walk import expressions, map_parts, walk_relations
from viewmill.errors import Span

CLOCK = "#clock"  # what programs that time changes read; no table can have this name
_NOW = "now"
_EPOCH = dt.datetime(1970, 1, 1)


def now(span: Span | None = None) -> Call:
    """The time of the mill."""
    return Call(_NOW, (), TIMESTAMP, False, span)


def is_now(expression: Expression) -> bool:
    """Whether it is the time of the mill itself."""
    return isinstance(expression, Call) and expression.function == _NOW


def clock_read(expression: Expression) -> Expression | None:
    """The first place in an expression that reads the clock; None if it does not."""
    return next(filter(is_now, walk(expression)), None)


def clock_reads(relation: Relation) -> Iterator[Expression]:
    """Every place in a relation that reads the clock, those in subqueries included."""
    for each in walk_relations(relation):
        if isinstance(each, Recursion):
            yield from clock_reads(each.base)
            yield from clock_reads(each.step)
        for expression in expressions(each):
            yield from filter(is_now, walk(expression))


def is_timed(relation: Relation) -> bool:
    """Whether it is a filter whose every condition compares with the clock."""
    return isinstance(relation, Filter) and all(
        clock_read(each) is not None for each in conjuncts(relation.condition)
    )


def moment(microseconds: int) -> Literal:
    """A constant moment."""
    return Literal(_EPOCH + dt.timedelta(microseconds=microseconds), TIMESTAMP)


def with_moment(expression: Expression, microseconds: int) -> Expression:
    """The expression as of a moment; queries inside are left out."""
    if is_now(expression):
        return moment(microseconds)
    return map_parts(expression, lambda part: with_moment(part, microseconds))

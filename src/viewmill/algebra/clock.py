"""The clock of a mill as a part of expressions: `now()` in a view.

A view that compares columns with `now()` changes when time passes, without any change of a table.
Its time is that of its last refresh, so it equals its query at that moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Call, Expression, Literal, walk
from viewmill.algebra.relations import Filter, Recursion, Relation
from viewmill.algebra.types import STRING, TIMESTAMP
from viewmill.algebra.walk import expressions, map_parts, walk_relations
from viewmill.errors import Span

CLOCK = "#clock"  # what programs that time changes read; no table can have this name
WATERMARK = "#watermark "  # and those that the time of a table changes, before its name
_NOW, _WATERMARK = "now", "watermark"
_EPOCH = dt.datetime(1970, 1, 1)


def now(span: Span | None = None) -> Call:
    """The time of the mill."""
    return Call(_NOW, (), TIMESTAMP, False, span)


def watermark(tables: Iterable[str], span: Span | None = None) -> Call:
    """How far time has come for tables: the least of their watermarks."""
    names = sorted({each.lower() for each in tables})
    given = tuple(Literal(each, STRING) for each in names)
    return Call(_WATERMARK, given, TIMESTAMP, False, span)


def tables_of(clock: Expression) -> tuple[str, ...]:
    """The tables whose time a clock tells; none if it is the time of the mill."""
    assert isinstance(clock, Call)
    return tuple(str(each.value) for each in clock.arguments if isinstance(each, Literal))


def is_now(expression: Expression) -> bool:
    """Whether it is the time of the mill itself, or that of tables."""
    return isinstance(expression, Call) and expression.function in (_NOW, _WATERMARK)


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
    """Whether it is a filter whose every condition compares with one and the same clock."""
    if not isinstance(relation, Filter):
        return False
    read = [clock_read(each) for each in conjuncts(relation.condition)]
    return None not in read and len(set(read)) == 1


def wall_clock_reads(relation: Relation) -> Iterator[Expression]:
    """Every place in a relation that reads the time of the mill, and not that of tables."""
    return (each for each in clock_reads(relation) if not tables_of(each))


def watched_tables(relation: Relation) -> set[str]:
    """The tables whose time may change a relation, without any row."""
    return {name for each in clock_reads(relation) for name in tables_of(each)}


def moment(microseconds: int) -> Literal:
    """A constant moment."""
    return Literal(_EPOCH + dt.timedelta(microseconds=microseconds), TIMESTAMP)


def with_moment(expression: Expression, time_of: Callable[[tuple[str, ...]], int]) -> Expression:
    """The expression as of the moments that clocks tell; queries inside are left out."""
    if is_now(expression):
        return moment(time_of(tables_of(expression)))
    return map_parts(expression, lambda part: with_moment(part, time_of))

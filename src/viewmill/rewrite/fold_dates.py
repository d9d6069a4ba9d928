"""Compute what is known already: a constant date moved by a constant interval."""

from __future__ import annotations

import datetime as dt

from viewmill.algebra.dates import add_months
from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.relations import Relation
from viewmill.algebra.types import Date, Interval, Timestamp
from viewmill.algebra.walk import map_parts
from viewmill.rewrite.correlation import map_expressions, transform_everywhere


def fold_dates(query: Relation) -> Relation:
    """A date plus or minus an interval is a date.

    before  Filter: o.day < DATE '1993-07-01' + INTERVAL '3' MONTH
    after   Filter: o.day < DATE '1993-10-01'
    """
    return transform_everywhere(query, lambda relation: map_expressions(relation, _fold))


def _fold(expression: Expression) -> Expression:
    folded = map_parts(expression, _fold)
    if not isinstance(folded, Call) or folded.function not in ("+", "-"):
        return folded
    moment, interval = folded.arguments if len(folded.arguments) == 2 else (None, None)
    if not isinstance(moment, Literal) or not isinstance(interval, Literal):
        return folded
    if not isinstance(interval.type, Interval) or not isinstance(interval.value, tuple):
        return folded
    months, microseconds = (x if folded.function == "+" else -x for x in interval.value)
    return _moved(folded, moment, months, microseconds)


def _moved(call: Call, moment: Literal, months: int, microseconds: int) -> Expression:
    value = moment.value
    more = dt.timedelta(microseconds=microseconds)
    try:
        if isinstance(call.type, Timestamp) and isinstance(value, dt.datetime):
            return Literal(add_months(value, months) + more, call.type, call.span)
        if isinstance(call.type, Date) and type(value) is dt.date:
            return Literal(add_months(value, months) + more, call.type, call.span)
    except (OverflowError, ValueError):  # beyond the calendar: the engine says so
        return call
    return call

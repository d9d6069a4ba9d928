"""Estimate the fan-out of a subquery that was turned into a join with its aggregate.

takes  a query with aggregates that are uncorrelated or correlated by equality, statistics
gives  key fan-out: a changed row changes the aggregate of its key, which joins all rows of the key
       total fan-out: an uncorrelated aggregate joins all rows, so each refresh meets all of them
next   planner, which compares these costs with those of an index by key
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Cast, Column, Expression, ScalarSubquery, walk
from viewmill.algebra.relations import Aggregate, Filter, Relation, Scan
from viewmill.algebra.walk import expressions, scans, walk_relations
from viewmill.rewrite.correlation import linear
from viewmill.rewrite.values_beside import is_closed
from viewmill.strategies.strategy import Statistics

# Assumed rows per key while the statistics know nothing.
_ROWS_OF_KEY = 30.0


def key_fanout(query: Relation, statistics: Statistics) -> float:
    """Average rows per key, of the subquery with the most."""
    return max((_rows_of_key(each, statistics) for each in _subqueries(query)), default=0.0)


def total_fanout(query: Relation, statistics: Statistics) -> float:
    """The rows of the largest table if some aggregate is uncorrelated, else 0."""
    if not any(_is_closed_aggregate(each) for each in _subqueries(query)):
        return 0.0
    return max((statistics.row_count(each.source) for each in scans(query)), default=0)


def _subqueries(query: Relation) -> list[Relation]:
    return [
        part.query
        for relation in walk_relations(query)
        for each in expressions(relation)
        for part in walk(each)
        if isinstance(part, ScalarSubquery)
    ]


def _is_closed_aggregate(query: Relation) -> bool:
    _, _, bottom = linear(query)
    return isinstance(bottom, Aggregate) and not bottom.keys and is_closed(query, 0)


def _rows_of_key(query: Relation, statistics: Statistics) -> float:
    parts = list(walk_relations(query))
    found = [each for each in parts if isinstance(each, Scan)]
    groups = [each for each in parts if isinstance(each, Aggregate)]
    if len(found) != 1 or len(groups) != 1 or groups[0].keys:
        return 0.0
    (scan,), keys, columns = found, 1.0, set[str]()
    for condition in (each.condition for each in parts if isinstance(each, Filter)):
        for part in walk(condition):
            if isinstance(part, Call) and part.function == "=":
                columns.add(_inner_column(part, scan))
                keys *= statistics.distinct.get((scan.source, _inner_column(part, scan)), 1)
    rows = statistics.row_count(scan.source)
    if keys > 1:
        return rows / min(rows, keys)
    return _ROWS_OF_KEY if columns - {""} else 0.0


def _inner_column(equality: Call, scan: Scan) -> str:
    """The scan's column in a correlated equality; "" if the equality is of another form."""
    sides = [_uncast(each) for each in equality.arguments]
    outer = [each for each in sides if isinstance(each, Column) and each.outer > 0]
    inner = [each for each in sides if isinstance(each, Column) and each.outer == 0]
    if len(outer) != 1 or len(inner) != 1:
        return ""
    return inner[0].name.removeprefix(f"{scan.alias}.")


def _uncast(expression: Expression) -> Expression:
    while isinstance(expression, Cast):
        expression = expression.input
    return expression

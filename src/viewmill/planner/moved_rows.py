"""How many rows an aggregate of a subquery is compared with when it has become a join.

takes  a query with aggregates that are correlated by = or not at all, statistics
gives  rows of a key: a changed row changes the aggregate of its key, and the join meets all of them
       all rows: where an aggregate is the same for all, each refresh meets them
next   planner, which compares that with an index by key, where they lie in order
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Cast, Column, Expression, ScalarSubquery, walk
from viewmill.algebra.relations import Aggregate, Filter, Relation, Scan
from viewmill.algebra.walk import expressions, scans, walk_relations
from viewmill.rewrite.correlation import linear
from viewmill.rewrite.values_beside import is_closed
from viewmill.strategies.strategy import Statistics

# What is expected of a key before statistics know it.
_ROWS_OF_KEY = 30.0


def moved_rows(query: Relation, statistics: Statistics) -> float:
    """The rows of the fullest kind of key, on average."""
    return max((_rows_of_key(each, statistics) for each in _subqueries(query)), default=0.0)


def met_rows(query: Relation, statistics: Statistics) -> float:
    """All rows, if an aggregate is the same for them; else 0."""
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
    """The column of the scan that is compared with one outside; "" if that is not what it is."""
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

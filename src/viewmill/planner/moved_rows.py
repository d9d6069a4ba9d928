"""How many rows an aggregate of a subquery is compared with when it has become a join.

takes  a query with aggregates that are correlated by =, statistics
gives  rows of a key: a changed row changes the aggregate of its key, and the join meets all of them
next   planner, which compares that with an index by key, where they lie in order
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Cast, Column, Expression, ScalarSubquery, walk
from viewmill.algebra.relations import Aggregate, Filter, Relation, Scan
from viewmill.algebra.walk import expressions, walk_relations
from viewmill.strategies.strategy import Statistics


def moved_rows(query: Relation, statistics: Statistics) -> float:
    """The rows of the fullest kind of key, on average; 0 if nothing is known of one."""
    subqueries = (
        part.query
        for relation in walk_relations(query)
        for each in expressions(relation)
        for part in walk(each)
        if isinstance(part, ScalarSubquery)
    )
    return max((_rows_of_key(each, statistics) for each in subqueries), default=0.0)


def _rows_of_key(query: Relation, statistics: Statistics) -> float:
    parts = list(walk_relations(query))
    scans = [each for each in parts if isinstance(each, Scan)]
    groups = [each for each in parts if isinstance(each, Aggregate)]
    if len(scans) != 1 or len(groups) != 1 or groups[0].keys:
        return 0.0
    (scan,), keys = scans, 1.0
    for condition in (each.condition for each in parts if isinstance(each, Filter)):
        for part in walk(condition):
            if isinstance(part, Call) and part.function == "=":
                keys *= statistics.distinct.get((scan.source, _inner_column(part, scan)), 1)
    rows = statistics.row_count(scan.source)
    return rows / min(rows, keys) if keys > 1 else 0.0


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

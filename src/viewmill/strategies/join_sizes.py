"""How many rows a query's joins have, as far as statistics say: what fans out costs more.

takes  a relation, statistics
gives  rows of its largest inner join; joins by columns of which nothing is known add nothing
next   strategies, which compare what that costs
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Cast, Column, Expression, walk
from viewmill.algebra.relations import Aggregate, Distinct, Filter, Join, Project, Relation, Scan
from viewmill.algebra.walk import walk_relations
from viewmill.strategies.strategy import Statistics


def joined_rows(query: Relation, statistics: Statistics) -> float:
    """Rows of the largest inner join of a query, 0 if there is none."""
    values = _values(query, statistics)
    joins = [each for each in walk_relations(query) if _is_inner(each)]
    return max((_rows(each, statistics, values) for each in joins), default=0.0)


def fan_out(query: Relation, statistics: Statistics) -> float:
    """Rows of the largest join for each row of the largest table."""
    read = [each.source for each in walk_relations(query) if isinstance(each, Scan)]
    largest = max((statistics.row_count(source) for source in read), default=1)
    return max(1.0, joined_rows(query, statistics) / largest)


def _values(query: Relation, statistics: Statistics) -> dict[str, int]:
    """Different values of the columns of tables, by their names in the query."""
    found = {}
    for scan in walk_relations(query):
        if isinstance(scan, Scan):
            for name in scan.schema.names:
                own = name.removeprefix(f"{scan.alias}.")
                values = statistics.distinct.get((scan.source, own))
                if values:
                    found[name] = values
    return found


def _is_inner(relation: Relation) -> bool:
    return isinstance(relation, Join) and relation.kind in ("inner", "cross")


def _rows(relation: Relation, statistics: Statistics, values: dict[str, int]) -> float:
    match relation:
        case Scan(source=source):
            return float(statistics.rows.get(source) or 1)
        case Join(left=left, right=right, condition=condition) if _is_inner(relation):
            rows = [_rows(each, statistics, values) for each in (left, right)]
            shares = [] if condition is None else _shares(condition, values)
            if not shares:
                return max(rows)  # nothing is known of how they meet
            size = rows[0] * rows[1]
            for share in shares:
                size /= share
            return max(size, 1.0)
        case Project(input=inner) | Filter(input=inner) | Aggregate(input=inner):
            return _rows(inner, statistics, values)
        case Distinct(input=inner):
            return _rows(inner, statistics, values)
        case Join(left=left, right=right):
            return max(_rows(left, statistics, values), _rows(right, statistics, values))
    return 1.0


def _shares(condition: Expression, values: dict[str, int]) -> list[int]:
    """For each equality of two known columns, how many different values the richer one has."""
    shares = []
    for part in walk(condition):
        if isinstance(part, Call) and part.function == "=":
            known = [values.get(_column(side), 0) for side in part.arguments]
            if all(known):
                shares.append(max(known))
    return shares


def _column(expression: Expression) -> str:
    while isinstance(expression, Cast):
        expression = expression.input
    return expression.name if isinstance(expression, Column) else ""

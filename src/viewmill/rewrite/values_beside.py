"""Put the one row of a subquery beside the rows that show it."""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Expression, ScalarSubquery, walk
from viewmill.algebra.relations import Aggregate, Join, Project, Relation, inputs
from viewmill.algebra.walk import expressions, map_inputs, queries
from viewmill.rewrite.correlation import linear
from viewmill.rewrite.drop_trivial import drop_trivial
from viewmill.rewrite.scalar_as_join import replaced


def values_beside(query: Relation) -> Relation:
    """Aggregates that are the same for all rows become a cross join; what is nested in them stays.

    before  Project: (query) / n           after  Project: sum / n
            ├─ Scan: t                            └─ Join cross
            └─ Subquery                              ├─ Scan: t
               └─ Aggregate: sum(b.volume)           └─ Aggregate: sum(b.volume)
                  └─ Filter: ... (query)                └─ Filter: ... (query)
    """
    return drop_trivial(_beside(query))


def _beside(relation: Relation) -> Relation:
    relation = map_inputs(relation, _beside)
    if not isinstance(relation, Project):
        return relation
    rows, outputs = relation.input, dict(relation.outputs)
    found = [part for each in outputs.values() for part in walk(each)]
    for number, subquery in enumerate(dict.fromkeys(found), 1):
        if not isinstance(subquery, ScalarSubquery) or not _is_one_row(subquery.query):
            continue
        (field,) = subquery.query.schema
        value = Column(field.name, field.type, field.nullable)
        name = f"{field.name}#beside_{number}"
        one = Project(subquery.query, ((name, value),))
        rows = Join("cross", rows, one, None, subquery.span)
        shown = Column(name, subquery.type, subquery.nullable)
        outputs = {n: replaced(each, subquery, shown) for n, each in outputs.items()}
    return Project(rows, tuple(outputs.items()), relation.span)


def _is_one_row(query: Relation) -> bool:
    """Whether a query is one aggregate of rows, and reads nothing of the query around it."""
    conditions, _, bottom = linear(query)
    is_one = isinstance(bottom, Aggregate) and not bottom.keys and not conditions
    return is_one and is_closed(query, 0)


def is_closed(query: Relation, depth: int) -> bool:
    """Whether no column is of a query further out than `depth` subqueries."""
    own = list(expressions(query))
    if any(_outer(each) > depth for each in own):
        return False
    inside = [inner for each in own for inner in queries(each)]
    return all(is_closed(each, depth + 1) for each in inside) and all(
        is_closed(each, depth) for each in inputs(query)
    )


def _outer(expression: Expression) -> int:
    return max((e.outer for e in walk(expression) if isinstance(e, Column)), default=0)

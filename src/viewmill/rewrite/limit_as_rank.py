"""Say ORDER BY with LIMIT and OFFSET as a condition on the number of a row in that order."""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Column, Expression, Literal, Over
from viewmill.algebra.relations import Filter, Limit, Project, Relation, Sort, Window
from viewmill.algebra.types import BOOLEAN, INT
from viewmill.algebra.walk import transform

RANK = "#rank"


def limit_as_rank(query: Relation) -> Relation:
    """The first rows of an order are those of a low number, which windows keep up to date.

    before  Limit: 3                 after  Project: a, b
            └─ Sort: a, b                   └─ Filter: #rank <= 3
               └─ Scan: t                      └─ Window: row_number() OVER (ORDER BY a, b) AS #rank
                                                  └─ Scan: t

    The keys of such an order end with all that is shown, so no two different rows are equal in it.
    A LIMIT without an order stays: nobody says which rows it means.
    """
    return transform(query, _ranked)


def _ranked(relation: Relation) -> Relation:
    if not isinstance(relation, Limit) or not isinstance(relation.input, Sort):
        return relation
    sort = relation.input
    number = Over("row_number", (), (), sort.keys, None, INT, False, span=relation.span)
    ranked = Window(sort.input, ((RANK, number),), relation.span)
    rows: Relation = ranked
    if relation.count is not None:
        rows = Filter(rows, _compare("<=", relation.offset + relation.count))
    if relation.offset:
        rows = Filter(rows, _compare(">", relation.offset))
    columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema)
    return Project(rows, columns)


def _compare(function: str, bound: int) -> Expression:
    return Call(function, (Column(RANK, INT, False), Literal(bound, INT)), BOOLEAN, False)

"""Say ORDER BY with LIMIT and OFFSET as a condition on the number of a row in that order."""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Column, Expression, Literal, Over
from viewmill.algebra.relations import Filter, Limit, Project, Relation, Sort, Window
from viewmill.algebra.schema import free_name
from viewmill.algebra.types import BOOLEAN, INT
from viewmill.algebra.walk import transform

_RANK = "#rank"


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
    rank = free_name(_RANK, sort.input.schema.names)
    ranked = Window(sort.input, ((rank, number),), relation.span)
    rows: Relation = ranked
    if relation.count is not None:
        rows = Filter(rows, _compare(rank, "<=", relation.offset + relation.count))
    if relation.offset:
        rows = Filter(rows, _compare(rank, ">", relation.offset))
    columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema)
    return Project(rows, columns)


def _compare(rank: str, function: str, bound: int) -> Expression:
    return Call(function, (Column(rank, INT, False), Literal(bound, INT)), BOOLEAN, False)

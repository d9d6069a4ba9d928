"""The shapes of query that this strategy takes today, as one flat record.

takes  a rewritten relation
gives  `Shape`: a scan, what happens to its rows, how they are grouped, what is shown
next   scalar (expressions to source), emit
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Foreign,
    Join,
    Limit,
    Named,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
)
from viewmill.algebra.walk import substitute
from viewmill.errors import Span


class NotTaken(Exception):
    """The query has something that this strategy does not maintain."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason, self.span = reason, span


@dataclass(frozen=True)
class Shape:
    """Rows of `scan` that meet `where`, grouped by `keys`; `outputs` over keys and aggregates.

    Without grouping (`keys` is None) the outputs are over the scan's columns.
    """

    scan: Scan
    where: tuple[Expression, ...]
    keys: tuple[Named, ...] | None
    aggregates: tuple[tuple[str, AggregateCall], ...]
    having: tuple[Expression, ...]
    outputs: tuple[Named, ...]


def shape_of(query: Relation) -> Shape:
    """The shape of a query, or `NotTaken` with the part that is in the way."""
    if isinstance(query, Sort):
        require_shown(query)
        query = query.input
    if isinstance(query, Distinct):
        inner = query.input
        keys: tuple[Named, ...] = tuple(
            (field.name, Column(field.name, field.type, field.nullable)) for field in inner.schema
        )
        query = Aggregate(inner, keys, (), None, query.span)
    above, outputs, bottom = peel(query)
    if isinstance(bottom, Aggregate):
        return _grouped(bottom, above, outputs)
    if isinstance(bottom, Scan):
        return Shape(bottom, above, None, (), (), outputs)
    raise NotTaken(*blame(bottom))


def _grouped(group: Aggregate, having: tuple[Expression, ...], outputs: tuple[Named, ...]) -> Shape:
    if group.grouping_sets is not None:
        raise NotTaken("grouping sets are not maintained incrementally yet", group.span)
    where, columns, bottom = peel(group.input)
    if not isinstance(bottom, Scan):
        raise NotTaken(*blame(bottom))
    by_name = dict(columns)
    keys = tuple((name, substitute(each, by_name)) for name, each in group.keys)
    calls = tuple((name, substitute(each, by_name)) for name, each in group.aggregates)
    return Shape(bottom, where, keys, calls, having, outputs)  # type: ignore[arg-type]


def peel(
    query: Relation,
) -> tuple[tuple[Expression, ...], tuple[Named, ...], Relation]:
    """Peel filters and projections: their conditions and outputs over what lies below."""
    match query:
        case Project(by_row=False):
            conditions, columns, bottom = peel(query.input)
            by_name = dict(columns)
            outputs = tuple((name, substitute(each, by_name)) for name, each in query.outputs)
            return conditions, outputs, bottom
        case Filter():
            conditions, columns, bottom = peel(query.input)
            condition = substitute(query.condition, dict(columns))
            return (*conditions, condition), columns, bottom
        case _:
            fields = query.schema
            columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in fields)
            return (), columns, query


def require_shown(sort: Sort) -> None:
    shown = set(sort.schema.names)
    for key in sort.keys:
        column = key.expression
        if not isinstance(column, Column) or column.name not in shown:
            raise NotTaken("the view is ordered by something that it does not show", column.span)


def blame(relation: Relation) -> tuple[str, Span | None]:
    words = {
        Join: "a join",
        Window: "an OVER window",
        SetOperation: "a set operation",
        Limit: "LIMIT",
        Sort: "ORDER BY inside a query",
        Values: "a list of constant rows",
        Distinct: "DISTINCT inside a query",
        Aggregate: "a group-by over a group-by",
        Recursion: "a recursive CTE inside a query",
        Explode: "a generator inside a query",
    }
    if isinstance(relation, Foreign):
        return f"the engine alone understands the query: {relation.reason}", relation.span
    what = words.get(type(relation), type(relation).__name__)
    return f"{what} is not maintained incrementally yet", relation.span

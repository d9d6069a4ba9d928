"""Drop columns that no operator above reads."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Foreign,
    Join,
    Limit,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
)
from viewmill.algebra.walk import columns_of, expressions, has_subquery, map_inputs, walk_relations


def prune_columns(query: Relation) -> Relation:
    """What is joined, grouped or kept has only the columns that are read above it.

    before  Aggregate by o.customer: count(*)        after  Aggregate by o.customer: count(*)
            └─ Join inner: o.id = l.order_id                └─ Project: o.customer
               ├─ Scan: orders o                               └─ Join inner: o.id = l.order_id
               └─ Scan: lines l                                   ├─ Scan: orders o
                                                                  └─ Scan: lines l

    A query that still has subqueries stays: their columns may be read from far away.
    """
    if any(has_subquery(each) for r in walk_relations(query) for each in expressions(r)):
        return query
    return _pruned(query, set(query.schema.names))


def _pruned(relation: Relation, needed: set[str]) -> Relation:
    match relation:
        case Scan() | Values() | Foreign() | Recursion():
            return relation
        case Explode():
            below = (needed | _read(relation)) & set(relation.input.schema.names)
            return replace(relation, input=_narrow(relation.input, below))
        case Filter():
            return replace(relation, input=_pruned(relation.input, needed | _read(relation)))
        case Project():
            outputs = tuple(each for each in relation.outputs if each[0] in needed)
            kept = replace(relation, outputs=outputs or relation.outputs[:1])
            return replace(kept, input=_pruned(kept.input, _read(kept)))
        case Aggregate():
            aggregates = tuple(each for each in relation.aggregates if each[0] in needed)
            kept_group = replace(relation, aggregates=aggregates)
            return replace(kept_group, input=_narrow(kept_group.input, _read(kept_group)))
        case Join():
            more = needed | _read(relation)
            return map_inputs(relation, lambda each: _narrow(each, more & set(each.schema.names)))
        case Window():
            below = (needed | _read(relation)) & set(relation.input.schema.names)
            return replace(relation, input=_narrow(relation.input, below))
        case Sort():
            return replace(relation, input=_pruned(relation.input, needed | _read(relation)))
        case Distinct() | Limit() | SetOperation():
            # Which rows are equal, and which come first, hangs on every column.
            return map_inputs(relation, lambda each: _pruned(each, set(each.schema.names)))


def _narrow(relation: Relation, needed: set[str]) -> Relation:
    """The relation with no other columns than those needed, at least one."""
    pruned = _pruned(relation, needed)
    names = pruned.schema.names
    if isinstance(pruned, Project) or needed == set(names) or _is_filtered_scan(pruned):
        return pruned
    kept = [field for field in pruned.schema if field.name in needed] or [pruned.schema[0]]
    columns: tuple[tuple[str, Expression], ...] = tuple(
        (field.name, Column(field.name, field.type, field.nullable)) for field in kept
    )
    return Project(pruned, columns)


def _is_filtered_scan(relation: Relation) -> bool:
    while isinstance(relation, Filter):
        relation = relation.input
    return isinstance(relation, Scan)


def _read(relation: Relation) -> set[str]:
    return set().union(*(columns_of(each) for each in expressions(relation)))

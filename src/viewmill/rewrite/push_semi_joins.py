"""Let a semi join that few rows pass meet its rows before they are joined with others."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Filter, Join, Project, Relation
from viewmill.algebra.walk import columns_of, substitute, transform


def push_semi_joins(query: Relation) -> Relation:
    """Move semi joins with groups that pass a HAVING below inner joins.

    before  Join semi: o.id = g.id                  after  Join inner: o.id = l.id
            ├─ Join inner: o.id = l.id                     ├─ Join semi: o.id = g.id
            │  ├─ Scan: orders o                           │  ├─ Scan: orders o
            │  └─ Scan: lines l                            │  └─ Filter: g.total > 300 ...
            └─ Filter: g.total > 300 ...                   └─ Scan: lines l

    Others stay: a join may leave fewer rows to ask about than its input has.
    """

    def change(relation: Relation) -> Relation:
        if isinstance(relation, Join) and relation.kind == "semi" and _is_narrow(relation.right):
            return _pushed(relation, relation.left) or relation
        return relation

    return transform(query, change)


def _is_narrow(relation: Relation) -> bool:
    """Whether a relation is what is left of groups."""
    is_filtered = False
    while isinstance(relation, Project | Filter):
        is_filtered = is_filtered or isinstance(relation, Filter)
        relation = relation.input
    return is_filtered and isinstance(relation, Aggregate)


def _pushed(semi: Join, rows: Relation) -> Relation | None:
    """`rows` with the semi join as far down as it goes; None if that is here."""
    match rows:
        case Filter():
            below = _pushed(semi, rows.input)
            return None if below is None else replace(rows, input=below)
        case Project():
            return _pushed_below_project(semi, rows)
        case Join(kind="inner" | "cross"):
            return _pushed_into_join(semi, rows)
        case _:
            return None


def _pushed_below_project(semi: Join, rows: Project) -> Relation | None:
    named = dict(rows.outputs)
    used = _own_columns(semi, rows)
    if rows.by_row or not all(isinstance(named[name], Column) for name in used):
        return None
    assert semi.condition is not None
    inside = replace(semi, condition=substitute(semi.condition, {n: named[n] for n in used}))
    below = _pushed(inside, rows.input)
    return None if below is None else replace(rows, input=below)


def _pushed_into_join(semi: Join, rows: Join) -> Relation | None:
    used = _own_columns(semi, rows)
    if used <= set(rows.left.schema.names):
        return replace(rows, left=_pushed(semi, rows.left) or replace(semi, left=rows.left))
    if used <= set(rows.right.schema.names):
        return replace(rows, right=_pushed(semi, rows.right) or replace(semi, left=rows.right))
    return None


def _own_columns(semi: Join, rows: Relation) -> set[str]:
    """The columns of the rows that the condition reads."""
    read = set() if semi.condition is None else columns_of(semi.condition)
    return read & set(rows.schema.names)

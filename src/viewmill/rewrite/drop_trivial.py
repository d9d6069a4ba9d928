"""Drop what does nothing."""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Literal
from viewmill.algebra.relations import Filter, Project, Relation
from viewmill.algebra.walk import transform


def drop_trivial(query: Relation) -> Relation:
    """Filters that are always true and projections that change nothing disappear.

    before  Filter: true                      after  Scan: orders o
            └─ Scan: orders o
    """
    return transform(query, _drop)


def _drop(relation: Relation) -> Relation:
    if isinstance(relation, Filter):
        condition = relation.condition
        if isinstance(condition, Literal) and condition.value is True:
            return relation.input
    if isinstance(relation, Project):
        same = tuple(
            isinstance(each, Column) and each.outer == 0 and each.name == name
            for name, each in relation.outputs
        )
        names = tuple(name for name, _ in relation.outputs)
        if all(same) and names == relation.input.schema.names:
            return relation.input
    return relation

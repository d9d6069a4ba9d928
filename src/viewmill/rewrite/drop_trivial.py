"""Drop what does nothing."""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Literal
from viewmill.algebra.relations import Filter, Join, Project, Relation, Values
from viewmill.algebra.walk import transform


def drop_trivial(query: Relation) -> Relation:
    """Filters that are always true and projections that change nothing disappear.

    So does the one row without columns (SELECT without FROM) beside other rows.

    before  Filter: true                      after  Scan: orders o
            └─ Scan: orders o
    """
    return transform(query, _drop)


def _drop(relation: Relation) -> Relation:
    if isinstance(relation, Filter):
        condition = relation.condition
        if isinstance(condition, Literal) and condition.value is True:
            return relation.input
    if isinstance(relation, Join) and relation.kind == "cross":
        for one, other in ((relation.left, relation.right), (relation.right, relation.left)):
            if isinstance(one, Values) and len(one.rows) == 1 and not one.schema.fields:
                return other
    if isinstance(relation, Project):
        same = tuple(
            isinstance(each, Column) and each.outer == 0 and each.name == name
            for name, each in relation.outputs
        )
        names = tuple(name for name, _ in relation.outputs)
        if all(same) and names == relation.input.schema.names:
            return relation.input
    return relation

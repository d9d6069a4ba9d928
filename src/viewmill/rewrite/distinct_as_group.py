"""Make a group-by of a DISTINCT."""

from __future__ import annotations

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Distinct, Named, Relation
from viewmill.algebra.walk import transform


def distinct_as_group(query: Relation) -> Relation:
    """Each row once is one row per group of all columns.

    before  Distinct                          after  Aggregate by o.customer
            └─ Project: o.customer                   └─ Project: o.customer
    """
    return transform(query, _group)


def _group(relation: Relation) -> Relation:
    if not isinstance(relation, Distinct) or not len(relation.schema):
        return relation
    keys: tuple[Named, ...] = tuple(
        (field.name, Column(field.name, field.type, field.nullable)) for field in relation.schema
    )
    return Aggregate(relation.input, keys, (), None, relation.span)

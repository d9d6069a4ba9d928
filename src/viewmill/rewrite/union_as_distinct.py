"""Make a UNION of a UNION ALL and a DISTINCT."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.relations import Distinct, Relation, SetOperation
from viewmill.algebra.walk import transform


def union_as_distinct(query: Relation) -> Relation:
    """Two steps that strategies know instead of one that they do not.

    before  Union                             after  Distinct
            ├─ Scan: a                               └─ Union all
            └─ Scan: b                                  ├─ Scan: a
                                                        └─ Scan: b
    """
    return transform(query, _split)


def _split(relation: Relation) -> Relation:
    if isinstance(relation, SetOperation) and relation.kind == "union" and not relation.all:
        return Distinct(replace(relation, all=True), relation.span)
    return relation

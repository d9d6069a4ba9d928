"""Merge a projection into the one below it."""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Expression, Literal, Over, walk
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.walk import columns_of, has_subquery, substitute, transform


def merge_projects(query: Relation) -> Relation:
    """Two projections become one.

    before  Project: x + 1 AS y
            └─ Project: a * 2 AS x
    after   Project: a * 2 + 1 AS y

    An inner expression that is read twice and costs something stays where it is computed once.
    """
    return transform(query, _merge)


def _merge(relation: Relation) -> Relation:
    if not isinstance(relation, Project) or not isinstance(relation.input, Project):
        return relation
    inner = relation.input
    by_name = dict(inner.outputs)
    if any(isinstance(part, Over) for _, each in relation.outputs for part in walk(each)):
        return relation
    if any(has_subquery(expression) for _, expression in (*relation.outputs, *inner.outputs)):
        return relation  # a correlated column below would change its meaning
    reads = [name for _, expression in relation.outputs for name in _reads(expression)]
    for name, expression in inner.outputs:
        if reads.count(name) > 1 and not isinstance(expression, Column | Literal):
            return relation
    outputs = tuple((name, substitute(each, by_name)) for name, each in relation.outputs)
    return Project(inner.input, outputs, relation.span)


def _reads(expression: Expression) -> list[str]:
    own = columns_of(expression)
    return [each.name for each in walk(expression) if isinstance(each, Column) and each.name in own]

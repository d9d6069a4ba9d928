"""Push filters towards the rows they judge."""

from __future__ import annotations

from viewmill.algebra.conditions import conjunction
from viewmill.algebra.relations import Filter, Project, Relation
from viewmill.algebra.walk import has_subquery, substitute, transform


def push_filters(query: Relation) -> Relation:
    """A filter above a projection goes below it; neighbouring filters become one.

    before  Filter: y > 3                     after  Project: a + 1 AS y
            └─ Project: a + 1 AS y                   └─ Filter: a + 1 > 3
    """
    return transform(query, _push)


def _push(relation: Relation) -> Relation:
    if not isinstance(relation, Filter):
        return relation
    below = relation.input
    if isinstance(below, Filter):
        both = conjunction(below.condition, relation.condition)
        return Filter(below.input, both, relation.span)
    if isinstance(below, Project) and not _has_subqueries(relation, below):
        condition = substitute(relation.condition, dict(below.outputs))
        pushed = _push(Filter(below.input, condition, relation.span))
        return Project(pushed, below.outputs, below.span)
    return relation


def _has_subqueries(filter_: Filter, project: Project) -> bool:
    inner = (expression for _, expression in project.outputs)
    return has_subquery(filter_.condition) or any(map(has_subquery, inner))

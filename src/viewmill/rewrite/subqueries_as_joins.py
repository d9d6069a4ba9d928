"""Turn the subqueries of filters and projections into joins, the innermost first."""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.expressions import Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Filter, Project, Relation
from viewmill.algebra.walk import expressions, has_subquery, queries, walk_relations
from viewmill.rewrite.correlation import (
    NotDecorrelated,
    is_free,
    own_columns,
    transform_everywhere,
)
from viewmill.rewrite.exists_as_semi_join import exists_as_semi_join
from viewmill.rewrite.scalar_as_join import scalar_as_join
from viewmill.rewrite.tests_as_columns import tests_as_columns


def subqueries_as_joins(query: Relation) -> Relation:
    """EXISTS and IN become semi joins, scalar subqueries joins with what they aggregate.

    A subquery in a place or of a form that no rule knows stays where it is.
    """
    return transform_everywhere(query, _without_subqueries)


def _without_subqueries(relation: Relation) -> Relation:
    try:
        if isinstance(relation, Filter) and has_subquery(relation.condition):
            return _filter(relation)
        if isinstance(relation, Project) and any(has_subquery(x) for _, x in relation.outputs):
            names = [name for name, _ in relation.outputs]
            rows, read = tests_as_columns(relation.input, [each for _, each in relation.outputs])
            rows, read = scalar_as_join(rows, read, is_condition=False)
            return Project(rows, tuple(zip(names, read, strict=True)), relation.span)
    except NotDecorrelated:
        pass
    return relation


def fails_inside(query: Relation) -> bool:
    """Whether a correlated subquery evaluates what can fail: as a join it does so for rows that
    no row outside asks about."""
    correlated = (q for each in _read(query) for q in queries(each) if not is_free(q))
    inside = (each for subquery in correlated for each in _read(subquery))
    return any(failing_part(each, overflow=True) is not None for each in inside)


def _read(query: Relation) -> Iterator[Expression]:
    return (each for relation in walk_relations(query) for each in expressions(relation))


def _filter(relation: Filter) -> Relation:
    """Conditions without a subquery first; then values, which may join what is joined already."""
    parts = list(conjuncts(relation.condition))
    rows = filtered(relation.input, [each for each in parts if not has_subquery(each)])
    tests: list[Expression] = []
    for part in (each for each in parts if has_subquery(each)):
        if _is_join(rows, part):
            tests.append(part)
            continue
        rows, read = tests_as_columns(rows, [part])
        rows, read = scalar_as_join(rows, read, is_condition=True)
        if any(map(has_subquery, read)):
            raise NotDecorrelated
        rows = filtered(rows, read)
    for test in tests:
        met = exists_as_semi_join(rows, test)
        assert met is not None
        rows = met
    return own_columns(rows, relation.input)


def _is_join(rows: Relation, part: Expression) -> bool:
    """Whether a condition is EXISTS or IN or the opposite, in a form that joins know."""
    try:
        return exists_as_semi_join(rows, part) is not None
    except NotDecorrelated:
        return False

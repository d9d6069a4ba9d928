"""The rules and their order.

takes  algebra.Relation from `sql.lower`
gives  an equal, simpler one
next   strategies
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.algebra.relations import Relation
from viewmill.rewrite.drop_trivial import drop_trivial
from viewmill.rewrite.merge_projects import merge_projects
from viewmill.rewrite.prune_columns import prune_columns
from viewmill.rewrite.push_filters import push_filters

Rule = Callable[[Relation], Relation]

# Filters move before projections merge: a filter between two projections keeps them apart.
RULES: tuple[Rule, ...] = (push_filters, merge_projects, drop_trivial)


# What turns subqueries into joins, for the strategies that want none.
DECORRELATE: tuple[Rule, ...] = ()


def decorrelate(query: Relation) -> Relation:
    """The query with its subqueries as joins, where a rule knows how."""
    return rewrite(query, (*DECORRELATE, *RULES, prune_columns))


def rewrite(query: Relation, rules: Sequence[Rule] = RULES) -> Relation:
    """Apply each rule once, in order."""
    for rule in rules:
        query = rule(query)
    return query

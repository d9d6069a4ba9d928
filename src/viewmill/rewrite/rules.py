"""The rules and their order.

takes  algebra.Relation from `sql.lower`
gives  an equal, simpler one
next   strategies
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.algebra.relations import Relation
from viewmill.rewrite.choices_as_rank import choices_as_rank
from viewmill.rewrite.distinct_as_group import distinct_as_group
from viewmill.rewrite.distinct_rows_as_text import distinct_rows_as_text
from viewmill.rewrite.drop_limits import drop_limits
from viewmill.rewrite.drop_trivial import drop_trivial
from viewmill.rewrite.factor_conditions import factor_conditions
from viewmill.rewrite.failing_conditions_last import failing_conditions_last
from viewmill.rewrite.fold_dates import fold_dates
from viewmill.rewrite.grouping_sets_as_union import grouping_sets_as_union
from viewmill.rewrite.laterals_as_joins import laterals_as_joins
from viewmill.rewrite.limit_as_rank import limit_as_rank
from viewmill.rewrite.merge_projects import merge_projects
from viewmill.rewrite.prune_columns import prune_columns
from viewmill.rewrite.push_filters import push_filters
from viewmill.rewrite.push_semi_joins import push_semi_joins
from viewmill.rewrite.rings_beside_others import rings_beside_others
from viewmill.rewrite.split_windows import split_windows
from viewmill.rewrite.subqueries_as_joins import subqueries_as_joins
from viewmill.rewrite.union_as_distinct import union_as_distinct
from viewmill.rewrite.widen_decimals import widen_decimals

Rule = Callable[[Relation], Relation]

# Filters move before projections merge: a filter between two projections keeps them apart.
RULES: tuple[Rule, ...] = (
    fold_dates,
    drop_limits,
    factor_conditions,
    failing_conditions_last,
    push_filters,
    merge_projects,
    drop_trivial,
    widen_decimals,
)

# What turns subqueries into joins, for the strategies that want none. A UNION is a DISTINCT before
# that is a group-by.
DECORRELATE: tuple[Rule, ...] = (
    laterals_as_joins,
    subqueries_as_joins,
    union_as_distinct,
    distinct_as_group,
    distinct_rows_as_text,
    grouping_sets_as_union,
    choices_as_rank,
    limit_as_rank,
    split_windows,
    push_semi_joins,
    rings_beside_others,
)


def rewrite(query: Relation, rules: Sequence[Rule] = RULES) -> Relation:
    """Apply each rule once, in order."""
    for rule in rules:
        query = rule(query)
    return query


def decorrelate(query: Relation) -> Relation:
    """The query with its subqueries as joins, where a rule knows how, in few kinds of relation."""
    return rewrite(query, (*DECORRELATE, *RULES, prune_columns))

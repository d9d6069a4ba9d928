"""Replan a view whose plan failed for rows on which its query does not fail.

takes  a view, and the tables as they are committed
does   plans it so that only what SQL evaluates is evaluated, and fills it again

A fast plan evaluates some expressions speculatively: the product of two columns before the join, a
condition of a correlated subquery for rows that no outer row asks for. If such a plan fails and
the query itself does not (`refresh.views_to_replan` asks the engine), the view is replanned. It is
also replanned when numbers outgrow the 64 bits that a fast plan gives them (`Outgrown`).
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import concat
from viewmill.errors import UnsupportedQuery
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import pass_on, plan_view
from viewmill.mill.memory import attach_built
from viewmill.mill.sharing import build_again
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView


def plan_carefully(core: Core, entry: ViewEntry) -> bool:
    """Plan a view anew; False if no plan that its statement allows is any better."""
    (statement,) = parse(entry.sql)
    if not isinstance(statement, CreateMaterializedView) or entry.enumerator is not None:
        return False
    statement = replace(statement, policies=entry.policies)
    try:
        made, _ = plan_view(core, statement, entry.sql, careful=True)
    except UnsupportedQuery:
        return False
    before = entry.block.maintainer.contents()
    old = entry.plan, entry.budgeted
    entry.plan, entry.budgeted = made, None
    try:
        build_again(core, entry)
    except BaseException:
        entry.plan, entry.budgeted = old
        raise
    attach_built(core, entry)
    entry.careful = True
    entry.has_taken_all()
    after = entry.block.maintainer.contents()
    pass_on(core, entry, consolidate(concat(entry.schema, [after, before.negated()])))
    return True

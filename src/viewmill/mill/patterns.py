"""Views over patterns: plan, build, fill.

takes  CREATE [MATERIALIZED] VIEW ... FROM m PATTERN [...]
gives  a ViewEntry whose maintainer runs the automaton, filled from the oldest kept part on
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from viewmill.codegen.shape import NotTaken
from viewmill.errors import UnsupportedQuery
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.planner.plan import Plan, PlannedBlock
from viewmill.program.kept_parts import KeptParts
from viewmill.program.parts import PartSource
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Input, Program
from viewmill.rewrite.rules import rewrite
from viewmill.runtime.runtime import Block
from viewmill.sql.catalog import unknown_table
from viewmill.sql.dialect import suffixes_of
from viewmill.sql.lower_match import find_match, lower_match
from viewmill.sql.lower_pattern import PatternSource, find_pattern, lower_pattern
from viewmill.sql.parse_match import PatternSuffix
from viewmill.sql.spans import span_of
from viewmill.sql.statements import CreateMaterializedView
from viewmill.strategies.strategy import Candidate, Cost
from viewmill.strategies.temporal_view.row_programs import row_programs

STRATEGY = "temporal_view"
MAINTAINERS = {
    False: "viewmill.kernels.patterns:PatternMaintainer",
    True: "viewmill.kernels.matches:MatchMaintainer",  # MATCH_RECOGNIZE
}


def is_pattern(query: exp.Expr) -> bool:
    """Whether a query has PATTERN or MATCH_RECOGNIZE."""
    return find_pattern(query) is not None or find_match(query) is not None


def plan_pattern(core: Core, statement: CreateMaterializedView, sql: str) -> Plan:
    """The plan of a pattern view."""
    assert isinstance(statement.query, exp.Select)
    if statement.strategy not in (None, STRATEGY) or statement.refresh_policy == "full":
        raise UnsupportedQuery("a pattern is kept by temporal_view only", span=statement.span)
    if statement.memory_bytes is not None:
        raise UnsupportedQuery(
            "a pattern view takes no MEMORY",
            detail="Its parts are its rows, and no query tells the runs of its automaton.",
            hint="LATENESS and RETENTION of its table bound what it keeps.",
            span=statement.span,
        )
    source = _source(core, statement.query, sql)
    is_match = find_match(statement.query) is not None
    lowered = lower_match if is_match else lower_pattern
    body = lowered(statement.query, sql, statement.name, source, core.catalog)
    body, reasons = _with_programs(body)
    shown = body.show
    inputs = (Input(source.name, source.name, source.schema),)
    program = Program(STRATEGY, shown, inputs, shown.schema, (), body)
    chosen = Candidate(STRATEGY, shown, Cost(3000.0, 0.4, 0), (*_notes(body), *reasons))
    block = PlannedBlock(statement.name, shown, chosen, (), (), program)
    reason = "the only strategy that takes a pattern"
    return Plan(statement.name, shown, (block,), (), (), reason)


def _with_programs(body: PatternQueries) -> tuple[PatternQueries, list[str]]:
    """The body with what computes its steps and rows; and why the engine has to, where it does."""
    body = replace(body, steps=rewrite(body.steps), show=rewrite(body.show))
    found: list[tuple[Program, ...]] = []
    reasons: list[str] = []
    for query in (body.steps, body.show):
        try:
            found.append(row_programs(query))
        except NotTaken as no:
            found.append(())
            reasons.append(f"the engine computes a part of each refresh: {no.reason}")
    return replace(body, step_programs=found[0], show_programs=found[1]), reasons


def _notes(body: PatternQueries) -> tuple[str, ...]:
    names = [each.variable + "+" * (each.stay is not None) for each in body.phases]
    return (f"automaton [{', '.join(names)}]: one run per phase and group",)


def _source(core: Core, query: exp.Select, sql: str) -> PatternSource:
    table = query.args["from_"].this
    if not isinstance(table, exp.Table) or not all(
        isinstance(each, PatternSuffix) for each in suffixes_of(table)
    ):
        raise UnsupportedQuery(
            "a pattern is of the rows of one table", hint="FROM m MATCH_RECOGNIZE (...)",
            span=span_of(table, sql) or span_of(query, sql),
        )  # fmt: skip
    entry = core.catalog.get(table.name)
    span = span_of(table.this, sql)
    if entry is None:
        raise unknown_table(core.catalog, table.name, core.catalog.names(), span)
    if not isinstance(entry, TableEntry) or entry.table.parts is None:
        raise UnsupportedQuery(
            "PATTERN reads a table in time parts",
            hint="Declare it with TIMESTAMP BY column PARTITION LENGTH seconds.",
            span=span,
        )
    options = entry.table.parts.options
    return PatternSource(entry.name, entry.table.schema, options.timestamp_by, options.length)


def prepare_pattern_view(core: Core, statement: CreateMaterializedView, sql: str) -> ViewEntry:
    """A pattern view, filled, that nobody knows yet."""
    plan = plan_pattern(core, statement, sql)
    source = plan.program.inputs[0].source.lower()
    entry = ViewEntry(
        name=statement.name,
        sql=sql if statement.span is None else statement.span.text,
        query=plan.query,
        plan=plan,
        blocks=[],
        policies=statement.policies,
        reads=frozenset([source]),
        names=frozenset([source]),
        created=core.version + 1,
    )
    maintainer: Any = build_pattern(core, entry)
    entry.blocks.append(Block(statement.name, plan.program, maintainer, {statement.name}))
    if core.restore_pattern is not None:
        core.restore_pattern(entry, maintainer)
    else:
        parts = core.catalog.table(plan.program.inputs[0].source).table.parts
        entry.since = None if parts is None else parts.oldest_shown()
        maintainer.start_at(entry.since)
    maintainer.fill()
    maintainer.commit()
    entry.rows = int(maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()
    return entry


def build_pattern(core: Core, entry: ViewEntry) -> KeptParts:
    """The maintainer of a pattern view, without any part."""
    program = entry.plan.program
    table = core.catalog.table(program.inputs[0].source).table
    source: PartSource | None = table.parts
    assert source is not None

    def run(relation: Any, tables: Mapping[str, Any]) -> Any:
        entry.engine_calls += 1
        return core.local_engine.run(relation, dict(tables))

    body = program.body
    assert isinstance(body, PatternQueries)
    maintainer: KeptParts = pkgutil.resolve_name(MAINTAINERS[body.is_match_recognize])(
        program, source, run, core.dictionary, lambda: core.version,
        None if table.parts is None else table.parts.orders,
        lambda: core.catalog.get(entry.name) is not entry or not entry.is_immediate,
    )  # fmt: skip
    return maintainer

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

from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Date, Integer, Timestamp
from viewmill.codegen.shape import NotTaken
from viewmill.errors import Span, UnknownName, UnsupportedQuery, nearest
from viewmill.mill.catalog import PlainEntry, TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.own_parts import PART_SECONDS, OwnParts
from viewmill.planner.plan import Plan, PlannedBlock
from viewmill.program.evaluate import can_evaluate
from viewmill.program.kept_parts import KeptParts
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Input, Program
from viewmill.program.row_patterns import Condition, RowPatternQueries
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
_PARTS = "viewmill.kernels.patterns:PatternMaintainer"
_MATCHES = "viewmill.kernels.matches:MatchMaintainer"
_ROW_MATCHES = "viewmill.kernels.row_matches:RowMatchMaintainer"


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
    body = replace(body, own_parts=source.own_parts)
    body, reasons = _with_programs(body)
    shown = body.show
    inputs = (Input(source.name, source.name, source.schema),)
    program = Program(STRATEGY, shown, inputs, shown.schema, (), body)
    chosen = Candidate(STRATEGY, shown, Cost(3000.0, 0.4, 0), (*_notes(body), *reasons))
    block = PlannedBlock(statement.name, shown, chosen, (), (), program)
    reason = "the only strategy that takes a pattern"
    return Plan(statement.name, shown, (block,), (), (), reason)


def pattern_maintainer(body: PatternQueries) -> Any:
    """The class that maintains a pattern."""
    if isinstance(body, RowPatternQueries):
        return pkgutil.resolve_name(_ROW_MATCHES)
    return pkgutil.resolve_name(_MATCHES if body.is_match_recognize else _PARTS)


def _with_programs(body: PatternQueries) -> tuple[PatternQueries, list[str]]:
    """The body with what computes its steps and rows; and why the engine has to, where it does."""
    body = replace(body, steps=rewrite(body.steps), show=rewrite(body.show))
    reasons: list[str] = []
    body = replace(
        body, step_programs=_programs(body.steps, reasons),
        show_programs=_programs(body.show, reasons),
    )  # fmt: skip
    if isinstance(body, RowPatternQueries):
        pattern = body.pattern
        if pattern.tests is not None:
            tests = rewrite(pattern.tests)
            made = _programs(tests, reasons)
            pattern = replace(pattern, tests=tests, test_programs=made)
        pattern = replace(pattern, conditions=tuple(map(_checked, pattern.conditions)))
        body = replace(body, pattern=pattern)
    return body, reasons


def _programs(query: Relation, reasons: list[str]) -> tuple[Program, ...]:
    try:
        return row_programs(query)
    except NotTaken as no:
        reasons.append(f"the engine computes a part of each refresh: {no.reason}")
        return ()


def _checked(condition: Condition) -> Condition:
    """A condition whose rest can be computed while rows are matched."""
    if condition.rest is None:
        return condition
    found = rewrite(condition.rest)
    if not isinstance(found, Project) or not isinstance(found.input, Scan):
        found = condition.rest
    assert isinstance(found, Project)
    ((_, whole),) = found.outputs
    if not can_evaluate(whole):
        raise UnsupportedQuery(
            "a condition on the match so far has a function that only the engine knows",
            hint="Compute it in a view, and match the rows of the view.", span=whole.span,
        )  # fmt: skip
    return replace(condition, rest=found)


def _notes(body: PatternQueries) -> tuple[str, ...]:
    if isinstance(body, RowPatternQueries):
        depends = any(each.rest is not None for each in body.pattern.conditions)
        note = "conditions depend on the match so far" if depends else "each step once at each row"
        return (f"matcher of {len(body.pattern.steps)} steps: {note}",)
    names = [each.variable + "+" * (each.stay is not None) for each in body.phases]
    return (f"automaton [{', '.join(names)}]: one run per phase and group",)


def _source(core: Core, query: exp.Select, sql: str) -> PatternSource:
    """What the pattern reads: a table in parts, or any table or view with a column for the time."""
    table = query.args["from_"].this
    if not isinstance(table, exp.Table) or not all(
        isinstance(each, PatternSuffix) for each in suffixes_of(table)
    ):
        raise UnsupportedQuery(
            "a pattern is of the rows of one table or view", hint="FROM m MATCH_RECOGNIZE (...)",
            span=span_of(table, sql) or span_of(query, sql),
        )  # fmt: skip
    entry, span = core.catalog.get(table.name), span_of(table.this, sql)
    if entry is None:
        raise unknown_table(core.catalog, table.name, core.catalog.names(), span)
    if isinstance(entry, PlainEntry):
        raise UnsupportedQuery(
            f'"{entry.name}" is a name for a query, not kept',
            hint=f"CREATE MATERIALIZED VIEW {entry.name} keeps its rows.", span=span,
        )  # fmt: skip
    order = _order_column(query)
    if isinstance(entry, TableEntry) and entry.table.parts is not None:
        options = entry.table.parts.options
        if order is None or order.lower() == options.timestamp_by.lower():
            return PatternSource(
                entry.name, entry.table.schema, options.timestamp_by, options.length
            )
    schema = core.catalog.find(entry.name)
    assert isinstance(schema, Schema)
    time = order if order is not None else _only_time(entry.name, schema, span)
    _check_time(schema, time, query, sql)
    return PatternSource(entry.name, schema, time, PART_SECONDS, own_parts=True)


def _order_column(query: exp.Select) -> str | None:
    """The first column in ORDER BY of MATCH_RECOGNIZE."""
    match = find_match(query)
    order = None if match is None else match.args.get("order")
    first = order.expressions[0].this if order is not None else None
    return first.name if isinstance(first, exp.Column) else None


def _only_time(name: str, schema: Schema, span: Span | None) -> str:
    times = [each.name for each in schema if isinstance(each.type, Timestamp | Date)]
    if len(times) != 1:
        raise UnsupportedQuery(
            f'PATTERN does not know which column of "{name}" is the time',
            detail=f"It has {len(times) or 'no'} columns of times.",
            hint="MATCH_RECOGNIZE says it by ORDER BY; a view can leave the others out.", span=span,
        )  # fmt: skip
    return times[0]


def _check_time(schema: Schema, name: str, query: exp.Select, sql: str) -> None:
    """The order of rows is that of a time or a whole number."""
    match = find_match(query)
    node = None if match is None else match.args["order"].expressions[0]
    at = schema.find(name)
    if at is None:
        raise UnknownName(f'there is no column "{name}"', hint=nearest(name, schema.names),
                          span=None if node is None else span_of(node, sql))  # fmt: skip
    if not isinstance(schema[at].type, Timestamp | Date | Integer):
        raise UnsupportedQuery(
            f"rows are matched in the order of a time or a whole number, not of {schema[at].type}",
            hint="ORDER BY a column of TIMESTAMP, DATE or BIGINT.",
            span=None if node is None else span_of(node, sql),
        )


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
        entry.since = maintainer.source.oldest_shown()
        maintainer.start_at(entry.since)
    maintainer.fill()
    maintainer.commit()
    entry.rows = int(maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()
    return entry


def build_pattern(core: Core, entry: ViewEntry) -> KeptParts:
    """The maintainer of a pattern view, without any part."""
    program = entry.plan.program
    (input_,), body = program.inputs, program.body
    assert isinstance(body, PatternQueries)
    source: Any
    shared = None
    if body.own_parts:
        time = input_.schema[body.time].name
        source = OwnParts(input_.source, input_.schema, time, is_fitted=body.is_match_recognize)
        source.stage(core.contents(input_.source))
        source.commit(core.version)
    else:
        source = core.catalog.table(input_.source).table.parts
        shared = source.orders

    def run(relation: Any, tables: Mapping[str, Any]) -> Any:
        entry.engine_calls += 1
        return core.local_engine.run(relation, dict(tables))

    maintainer: KeptParts = pattern_maintainer(body)(
        program, source, run, core.dictionary, lambda: core.version, shared,
        lambda: core.catalog.get(entry.name) is not entry or not entry.is_immediate,
    )  # fmt: skip
    return maintainer

"""Create temporal views, and rebuild their parts to compare.

takes  CREATE VIEW ... INITIALIZE ... UPDATE ...
does   lower both queries → program → maintainer → first part, then one commit
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.engines.parts import PartMaintainer
from viewmill.errors import CyclicViews, UnsupportedQuery
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import (
    describe,
    install_view,
    names_in,
    own_text,
    record,
    replace_view,
    save,
)
from viewmill.planner.plan import Plan, PlannedBlock
from viewmill.program.parts import PartQueries, PartQuery, PartSource
from viewmill.program.program import Input, Program
from viewmill.rewrite.rules import rewrite
from viewmill.runtime.runtime import Block
from viewmill.sql.lower_parts import initial_schema, lower_parts, under_schema
from viewmill.sql.statements import CreateTemporalView
from viewmill.strategies.strategy import Candidate, Cost

STRATEGY = "temporal_view"
_QUERY_US = 3000.0  # DuckDB's own start, for each part


def part_source(core: Core, name: str) -> PartSource | None:
    """What has the parts of a name, or None if it has none."""
    entry = core.catalog.get(name)
    if isinstance(entry, TableEntry):
        return entry.table.parts
    kept = entry.kept_parts if isinstance(entry, ViewEntry) else None
    return kept if kept is not None and kept.has_parts else None


def create_temporal_view(core: Core, statement: CreateTemporalView, sql: str) -> None:
    """Create a temporal view and compute its first part."""
    existing = core.catalog.get(statement.name)
    if existing is not None and statement.if_not_exists:
        return
    if existing is not None and not (statement.or_replace and isinstance(existing, ViewEntry)):
        core.catalog.require_free(statement.name)
    if isinstance(existing, ViewEntry):
        statement = replace(statement, name=existing.name)
    entry = prepare_temporal_view(core, statement, sql)
    maintainer = temporal_maintainer(entry)
    newest = maintainer.newest_computable()
    if newest is not None:
        maintainer.begin(newest)
    fill_temporal_view(core, entry)
    if isinstance(existing, ViewEntry):
        replace_view(core, existing, entry, temporal_record, install_temporal_view)
        return
    save(core, {entry.name: temporal_record(entry)})
    install_temporal_view(core, entry, stored_first=maintainer.first)


def install_temporal_view(core: Core, entry: ViewEntry, *, stored_first: int | None = None) -> None:
    """Add a temporal view to the catalog, and tell its sources how many old parts it reads."""
    install_view(core, entry)
    maintainer = temporal_maintainer(entry)
    core.starting[entry.name.lower()] = _Starting(core, entry, stored_first)
    body = entry.plan.program.body
    assert isinstance(body, PartQueries)
    for reference in body.update.references:
        low, high = reference.span_at(0)
        source: Any = maintainer if reference.source == entry.name else None
        source = source or part_source(core, reference.source)
        depth = 1 - low if source is maintainer else high - low + 1
        source.lookback = max(source.lookback, depth)


class _Starting:
    """Gives the catalog record of a view to store with the first change after the view started.

    A deferred view starts at a refresh, which commits nothing itself. Its first part cannot be
    determined later, because a late row may be older.
    """

    def __init__(self, core: Core, entry: ViewEntry, stored_first: int | None) -> None:
        self._core, self._entry = core, entry
        self._stored_at: int | None = None if stored_first is None else core.version

    def __call__(self) -> dict[str, str]:
        entry, version = self._entry, self._core.version
        has_started = temporal_maintainer(entry).first is not None and not entry.dropped
        if not has_started or (self._stored_at is not None and version >= self._stored_at):
            return {}
        self._stored_at = version + 1
        return {entry.name: temporal_record(entry)}


def temporal_record(entry: ViewEntry) -> str:
    """The catalog record of a view, with its first part."""
    first = temporal_maintainer(entry).first
    policies = [str(policy) for policy in entry.policies]
    return record(entry.sql, kind="temporal", created=entry.created, first=first, policies=policies)


def temporal_maintainer(entry: ViewEntry) -> PartMaintainer:
    """The maintainer of a temporal view."""
    maintainer = entry.block.maintainer
    assert isinstance(maintainer, PartMaintainer)
    return maintainer


def is_temporal(entry: object) -> bool:
    """Whether an entry of the catalog is a view in parts."""
    return isinstance(entry, ViewEntry) and entry.kept_parts is not None


def fill_temporal_view(core: Core, entry: ViewEntry) -> None:
    """Compute the parts of a new view."""
    maintainer = temporal_maintainer(entry)
    maintainer.flush()
    maintainer.commit()
    entry.rows = int(maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()


def prepare_temporal_view(core: Core, statement: CreateTemporalView, sql: str) -> ViewEntry:
    """Plan and build a temporal view without parts that is not in the catalog yet."""
    own = statement.name.lower()
    queries = (statement.initialize.query, statement.update.query)
    names = frozenset(name for query in queries for name in names_in(core, query)) - {own}
    _refuse_cycle(core, own, names)
    body = lower_temporal_view(core, statement, sql)
    program = part_program(core, body)
    entry = ViewEntry(
        name=statement.name,
        sql=own_text(statement, sql),
        query=body.update.query,
        plan=_plan(statement.name, program),
        blocks=[],
        policies=statement.policies,
        reads=frozenset(each.source.lower() for each in program.inputs),
        names=names,
        created=core.version + 1,
    )
    maintainer = build_parts(core, program, entry)
    entry.blocks.append(Block(statement.name, program, maintainer, {statement.name}))
    return entry


def build_parts(core: Core, program: Program, entry: ViewEntry) -> PartMaintainer:
    """Build the maintainer of a program over parts, without any part yet."""
    parted = {each.source: part_source(core, each.source) for each in program.inputs}

    def run(relation: Any, rows: Mapping[str, list[Delta]]) -> Any:
        tables = {
            name.lower(): pa.concat_tables([core.arrow_parts.table(each) for each in parts])
            for name, parts in rows.items()
        }
        return core.run(relation, view=entry, tables=tables)

    sources = {name: source for name, source in parted.items() if source is not None}
    return PartMaintainer(
        program, sources, run, core.dictionary, lambda: core.version,
        lambda: not entry.is_immediate, lambda: entry.dropped,
    )  # fmt: skip


def _refuse_cycle(core: Core, name: str, names: frozenset[str]) -> None:
    for each in names:
        if name in core.catalog.reads_transitively(each):
            raise CyclicViews(f'view "{name}" would read itself through "{each}"')


def lower_temporal_view(core: Core, statement: CreateTemporalView, sql: str) -> PartQueries:
    """Lower both queries; INITIALIZE determines the columns."""

    def lowered(written: Any, own: Schema | None) -> PartQuery:
        def is_parted(name: str) -> bool:
            return part_source(core, name) is not None

        return lower_parts(
            written, sql, statement.name, core.catalog, is_parted, describe(core), own
        )

    first = lowered(statement.initialize, None)
    schema = initial_schema(first.query)
    following = lowered(statement.update, schema)
    if not any(each.source != statement.name for each in first.references):
        raise UnsupportedQuery(
            "INITIALIZE reads no part",
            hint="Write FROM m[i]: the newest part of m is where the view starts.",
            span=statement.initialize.span,
        )
    return PartQueries(
        statement.name,
        _under(first, schema, statement),
        _under(following, schema, statement),
        statement.partition_length,
    )


def _under(query: PartQuery, schema: Schema, statement: CreateTemporalView) -> PartQuery:
    shaped = under_schema(query.query, schema, statement.update.span)
    return PartQuery(_nullable(rewrite(shaped)), query.references, query.whole)


def _nullable(query: Relation) -> Relation:
    """Make all columns nullable: the other of the two queries may give NULL."""
    if all(each.nullable for each in query.schema):
        return query
    columns = tuple((each.name, Column(each.name, each.type, True)) for each in query.schema)
    return Project(query, columns)


def part_program(core: Core, body: PartQueries) -> Program:
    """The program of a temporal view: one input for each source but itself."""
    queries = (body.initialize, body.update)
    names = [each.source for query in queries for each in query.references]
    names += [name for query in queries for name in query.whole]
    sources = [name for name in dict.fromkeys(names) if name != body.view]
    inputs = tuple(Input(name, name, _schema(core, name)) for name in sources)
    query = body.update.query
    return Program(STRATEGY, query, inputs, query.schema, (), body)


def _schema(core: Core, name: str) -> Schema:
    found = core.catalog.find(name)
    assert isinstance(found, Schema)
    return found


def _plan(name: str, program: Program) -> Plan:
    chosen = Candidate(STRATEGY, program.query, Cost(_QUERY_US, 0.05, 0))
    block = PlannedBlock(name, program.query, chosen, (), (), program)
    reason = "INITIALIZE and UPDATE say how parts follow from parts"
    return Plan(name, program.query, (block,), (), (), reason)

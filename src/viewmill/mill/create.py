"""Create, replace and drop tables and views.

takes  statements
does   lower → rewrite → plan → build → backfill, then one commit; an error changes nothing
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from viewmill.algebra.names import check_name
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import sources
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.errors import (
    CyclicViews,
    EvaluationFailed,
    NameInUse,
    Outgrown,
    Overflow,
    Span,
    UnsupportedQuery,
)
from viewmill.mill.adaptive_recompute import note_bulk
from viewmill.mill.archive import attach_archive
from viewmill.mill.catalog import PlainEntry, TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import (
    build,
    fill,
    fill_anew,
    fill_blocks,
    fill_from_snapshot,
    restore_lost,
    unbuilt_blocks,
)
from viewmill.mill.memory import attach, refresh_blocks, release_states
from viewmill.mill.pattern_rows import Rows, kept_rows_of, rows_to_keep
from viewmill.mill.patterns import is_pattern, plan_pattern, prepare_pattern_view
from viewmill.mill.refresh import notify, publish, refresh_view, speculates
from viewmill.mill.sharing import own_blocks, share_blocks, unshare
from viewmill.mill.state_snapshots import SavedStates
from viewmill.mill.statistics import statistics
from viewmill.mill.table import Table
from viewmill.mill.through_factorized import inline_factorized
from viewmill.mill.window_families import leave_families, note_readers, window_of, windows_in
from viewmill.planner.plan import Plan
from viewmill.planner.planner import PlanOptions, plan
from viewmill.policies.policies import is_immediate
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Timed
from viewmill.program.window_parts import WindowParts
from viewmill.rewrite.rules import rewrite
from viewmill.runtime.runtime import join
from viewmill.sql.catalog import PlainView
from viewmill.sql.common_tables import is_common_table
from viewmill.sql.environment import Describe
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import (
    CreateMaterializedView,
    CreateTable,
    CreateTemporalView,
    CreateView,
)
from viewmill.strategies.strategy import Statistics

# Tables.


def create_table(core: Core, statement: CreateTable, sql: str) -> None:
    """Create a table."""
    if statement.if_not_exists and core.catalog.get(statement.name):
        return
    core.catalog.require_free(statement.name)
    _check_parts(statement)
    version = core.version + 1
    key = f"{statement.name.lower()}@{version}"
    text = own_text(statement, sql)
    entry = TableEntry(statement.name, text, key, Table.from_statement(statement, core.dictionary))
    save(core, {statement.name: table_record(core, entry)})
    add_table(core, entry)


def add_table(core: Core, entry: TableEntry) -> None:
    """Add a table to the catalog."""
    core.catalog.add(entry)
    attach_own_archive(core, entry)


def attach_own_archive(core: Core, entry: TableEntry) -> None:
    """Archive the parts of a table when they expire, if it says so."""
    parts = entry.table.parts
    if parts is not None and parts.options.archive is not None and not core.read_only:
        attach_archive(core, entry.name, parts, parts.options.archive)


def _check_parts(statement: CreateTable) -> None:
    if statement.idle_after is not None and statement.timestamp_by is None:
        raise UnsupportedQuery(
            "IDLE AFTER needs TIMESTAMP BY",
            detail="A table without a time holds nobody up.",
            hint="Write TIMESTAMP BY column.",
            span=statement.span,
        )
    if statement.partition_length is not None and statement.timestamp_by is None:
        raise UnsupportedQuery(
            "PARTITION LENGTH needs TIMESTAMP BY",
            detail="Parts are cut by a time column.",
            hint="Write TIMESTAMP BY column PARTITION LENGTH seconds.",
            span=statement.span,
        )
    if statement.retention is not None and statement.partition_length is None:
        raise UnsupportedQuery(
            "RETENTION needs PARTITION LENGTH",
            detail="What is kept is counted in time parts.",
            span=statement.span,
        )
    _check_old_parts(statement)


def _check_old_parts(statement: CreateTable) -> None:
    rolls, length = statement.roll_up, statement.partition_length
    if rolls is not None and (length is None or rolls.length <= length or rolls.length % length):
        raise UnsupportedQuery(
            "ROLL UP LENGTH is a multiple of PARTITION LENGTH",
            detail="Whole small parts become one larger part.",
            span=statement.span,
        )
    if statement.archive is not None and statement.retention is None:
        raise UnsupportedQuery(
            "ARCHIVE needs RETENTION",
            detail="What is archived are the parts that retention ends.",
            span=statement.span,
        )


def drop_kept_rows(core: Core, entry: ViewEntry) -> None:
    """Drop the view that was made to keep the rows of a pattern, which is gone."""
    below = kept_rows_of(core, entry)
    if below is not None:
        drop(core, below)


def drop(core: Core, name: str) -> None:
    """Drop a table or view that no view reads."""
    entry = core.catalog.get(name)
    assert entry is not None
    core.catalog.require_unread(name)
    save(core, {entry.name: None})
    core.catalog.remove(name)
    core.ticks.pop(entry.name, None)
    if isinstance(entry, ViewEntry):
        entry.dropped = True
        core.runtime.remove(entry.name)
        note_readers(core, entry)
        core.starting.pop(entry.name.lower(), None)
        drop_kept_rows(core, entry)


# Views.


def create_plain_view(core: Core, statement: CreateView, sql: str) -> None:
    """Create a plain view: its query is checked now and inlined where it is used."""
    if is_pattern(statement.query):
        create_view(core, as_materialized(statement), sql)
        return
    existing = core.catalog.get(statement.name)
    if existing is not None and statement.if_not_exists:
        return
    if existing is not None and not (statement.or_replace and isinstance(existing, PlainEntry)):
        core.catalog.require_free(statement.name)
    names = names_in(core, statement.query)
    _refuse_cycle(core, statement.name, names)
    if existing is not None:
        core.catalog.require_unread(statement.name)
    query = lower(statement.query, sql, core.catalog, describe(core))
    _check_columns(query.schema, statement.span)
    view, text = PlainView(statement.query, sql), own_text(statement, sql)
    name = statement.name if existing is None else existing.name
    save(core, {name: record(text, kind="plain")})
    core.catalog.add(PlainEntry(name, text, view, query.schema, names))


def as_materialized(statement: CreateView) -> CreateMaterializedView:
    """The statement as CREATE MATERIALIZED VIEW: pattern views are always materialized."""
    return CreateMaterializedView(
        statement.name,
        statement.query,
        statement.query_sql,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
        span=statement.span,
    )


def create_view(core: Core, statement: CreateMaterializedView, sql: str) -> None:
    """Create or replace a materialized view, filled from the tables as they are."""
    existing = core.catalog.get(statement.name)
    if existing is not None and statement.if_not_exists:
        return
    if existing is not None and not (statement.or_replace and isinstance(existing, ViewEntry)):
        core.catalog.require_free(statement.name)
    if isinstance(existing, ViewEntry):
        statement = replace(statement, name=existing.name)
    if is_pattern(statement.query):
        rows = rows_to_keep(core, statement.name, own_text(statement, sql))
        if rows is not None:
            _create_over_rows(core, statement, rows)
            return
    entry = prepare_view(core, statement, sql)
    if isinstance(existing, ViewEntry):
        replace_view(core, existing, entry, view_record, install_view)
        return
    try:
        save(core, {entry.name: view_record(entry), **core.time_record((entry,))})
    except BaseException:
        leave_families(entry)
        raise
    install_view(core, entry)
    release_states(core)


def _create_over_rows(core: Core, statement: CreateMaterializedView, rows: Rows) -> None:
    """Create a view that keeps the rows of a pattern, then the pattern over it."""
    for text in (rows.create, rows.pattern):
        (made,) = parse(text)
        if isinstance(made, CreateView):
            made = as_materialized(made)
        assert isinstance(made, CreateMaterializedView)
        try:
            create_view(core, replace(made, span=None), text)
        except BaseException:
            if core.catalog.get(rows.name) is not None:
                drop(core, rows.name)
            raise


def prepare_view(
    core: Core,
    statement: CreateMaterializedView,
    sql: str,
    *,
    careful: bool = False,
    saved: SavedStates | None = None,
) -> ViewEntry:
    """Plan, build and fill a view that is not in the catalog yet; `saved` are states to load."""
    if is_pattern(statement.query) and _elsewhere(core, statement, sql) is None:
        return prepare_pattern_view(core, statement, sql)
    names = names_in(core, statement.query)
    _refuse_cycle(core, statement.name, names)
    known = None if saved is None else saved.known
    made, query = plan_view(core, statement, sql, careful=careful, known=known)
    entry = ViewEntry(
        name=statement.name,
        sql=own_text(statement, sql),
        query=query,
        plan=made,
        blocks=unbuilt_blocks(made),
        policies=statement.policies,
        reads=frozenset(name.lower() for name in sources(query)),
        names=names,
        created=core.version + 1,
        adapts=statement.refresh_policy == "auto" and statement.strategy is None,
        budget=statement.memory_bytes,
        careful=careful,
    )
    if saved is not None:
        saved.check(entry)
    attach(core, entry)
    share_blocks(core, entry)
    if entry.budgeted is None or entry.budgeted.mode == "incremental":
        for block in own_blocks(entry):
            rows = None if saved is None else saved.entries
            block.maintainer = build(core, block.program, entry, rows)
    if saved is not None:
        fill_from_snapshot(core, entry, saved)
        return entry
    start = time.perf_counter()
    try:
        fill(core, entry)
    except (Overflow, EvaluationFailed) as why:
        leave_families(entry)
        if careful or not (isinstance(why, Outgrown) or speculates(entry)):
            raise
        return prepare_view(core, statement, sql, careful=True)
    note_bulk(core, entry, (time.perf_counter() - start) * 1e6)
    return entry


def plan_view(
    core: Core,
    statement: CreateMaterializedView,
    sql: str,
    *,
    careful: bool = False,
    known: Statistics | None = None,
) -> tuple[Plan, Relation]:
    """The plan of a view, without creating it; `known` is what it was planned with before."""
    query = _elsewhere(core, statement, sql)
    if query is None and is_pattern(statement.query):
        made = plan_pattern(core, statement, sql)
        return made, made.query
    if query is None:
        query = rewrite(lower(statement.query, sql, core.catalog, describe(core)))
        query = core.reshape(statement.name, query)
    _check_columns(query.schema, statement.span)
    query = _over_factorized(core, query)
    if statement.result == "factorized" and statement.memory_bytes is not None:
        raise UnsupportedQuery(
            "RESULT FACTORIZED does not go with MEMORY",
            detail="The states are the result: none can be released.",
            span=statement.span,
        )
    options = PlanOptions(
        statement.refresh_policy, statement.strategy, statement.hints, statement.result
    )
    known = replace(statistics(core, query) if known is None else known, careful=careful)
    made = plan(statement.name, query, known, options)
    if careful:
        why = "a faster plan failed where the query does not"
        made = replace(made, reason=f"{made.reason}; {why}")
    if statement.memory_bytes is not None and isinstance(made.program.body, WindowParts):
        made = _without_parts(core, statement, query, options)
    _require_releasable(statement, made)
    return made, query


def _require_releasable(statement: CreateMaterializedView, made: Plan) -> None:
    """What cannot be recomputed at any time cannot give memory back."""
    if statement.memory_bytes is None:
        return
    if any(isinstance(each.program.body, Timed) for each in made.blocks):
        raise UnsupportedQuery(
            "a view that follows the clock takes no MEMORY",
            detail="Its rows leave as time passes, which a query that is run again does not see.",
            hint="A condition that keeps fewer rows bounds what it holds.",
            span=statement.span,
        )


def _elsewhere(core: Core, statement: CreateMaterializedView, sql: str) -> Relation | None:
    """The query of this mill's part of a pattern view that runs on shards; None if it does not."""
    if not is_pattern(statement.query):
        return None
    made = plan_pattern(core, statement, sql)
    assert isinstance(made.program.body, PatternQueries)
    query = core.reshape(statement.name, made.query, made.program.body)
    return None if query is made.query else query


def _without_parts(
    core: Core, statement: CreateMaterializedView, query: Relation, options: PlanOptions
) -> Plan:
    """A plan whose states a budget can release: those of a window in parts are its rows."""
    if options.strategy is not None:
        raise UnsupportedQuery(
            "a window in parts takes no MEMORY",
            detail="Its parts are its rows, and none can be released.",
            hint="STRATEGY shared_window does; LATENESS and RETENTION bound what parts keep.",
            span=statement.span,
        )
    options = replace(options, strategy="shared_window")
    return plan(statement.name, query, statistics(core, query), options)


def _check_columns(schema: Schema, span: Span | None) -> None:
    for name in schema.names:
        check_name(name, "a column", span)


def _over_factorized(core: Core, query: Relation) -> Relation:
    """A query over factorized views is one over what they read: they do not list their changes.

    Those with a policy of their own would show other rows than the tables, and arrays have none.
    """
    for name in sources(query):
        entry = core.catalog.get(name)
        if not isinstance(entry, ViewEntry) or entry.enumerator is None:
            continue
        if entry.policies or entry.enumerator.form != "factorized":
            raise UnsupportedQuery(
                f'view "{entry.name}" is {entry.enumerator.form}, so no view can be kept over it',
                detail="It does not list its changes.",
                hint="Read the tables that it reads, or keep it listed.",
            )
    inlined = inline_factorized(core, query)
    return query if inlined is query else rewrite(inlined)


def install_view(core: Core, entry: ViewEntry) -> None:
    """Add a filled view to the catalog and the runtime."""
    if not entry.waiting_rows:
        entry.version = core.version
    core.catalog.add(entry)
    join(entry.blocks, entry.name)
    for block in entry.blocks:
        core.runtime.add(block)
    if window_of(entry) is None or len(entry.blocks) > 1:  # a window needs no place among blocks
        core.runtime.arrange([each.name for each in core.catalog.in_order()])
    note_readers(core, entry)


def replace_view(
    core: Core,
    old: ViewEntry,
    new: ViewEntry,
    recorded: Callable[[ViewEntry], str],
    install: Callable[[Core, ViewEntry], None],
) -> None:
    """Replace the definition of a view; its readers receive the difference as a delta."""
    readers = core.catalog.readers(old.name)
    _refuse_part_readers(old, readers)
    if new.enumerator is not None and (readers or old.listeners):
        raise NameInUse(
            f'"{old.name}" is read or subscribed to, and would not list its changes any more',
            hint="Drop what reads it, or keep it listed.",
        )
    if readers and _shape(new.schema) != _shape(old.schema):
        names = ", ".join(each.name for each in readers)
        raise NameInUse(
            f'"{old.name}" is read by {names}, and its columns would change',
            hint="Drop those first, or keep the columns.",
        )
    change = _change(new, old)
    new.listeners = old.listeners
    starting = core.starting.pop(old.name.lower(), None)
    _exchange(core, old, new, install)
    try:
        outputs = _refresh_readers(core, new, change)
        save(core, {old.name: None, new.name: recorded(new)})
    except BaseException:
        core.runtime.rollback()
        _exchange(core, new, old, install_view)
        core.starting.pop(new.name.lower(), None)
        if starting is not None:
            core.starting[old.name.lower()] = starting
        raise
    old.dropped = True
    drop_kept_rows(core, old)
    new.version = core.version
    _publish_change(core, new, change, outputs)
    release_states(core)


def _refuse_part_readers(old: ViewEntry, readers: Iterable[object]) -> None:
    """Refuse to replace a view whose parts other views read: their parts depend on its parts."""
    views = [each for each in readers if isinstance(each, ViewEntry)]
    found = [e.name for e in views if isinstance(e.plan.program.body, PartQueries)]
    if found and old.kept_parts is not None:
        raise NameInUse(
            f'parts of "{old.name}" are read by {", ".join(found)}',
            hint="Drop those first, and create them again.",
        )


def _exchange(
    core: Core, old: ViewEntry, new: ViewEntry, install: Callable[[Core, ViewEntry], None]
) -> None:
    """Replace a view in the catalog and the runtime."""
    core.catalog.remove(old.name)
    core.runtime.remove(old.name)
    install(core, new)


def refresh_fully(core: Core, entry: ViewEntry) -> None:
    """Rebuild a view in bulk; its readers receive the difference as a delta."""
    if isinstance(entry.block.program.body, PartQueries | PatternQueries):
        raise UnsupportedQuery(
            f'"{entry.name}" is in parts, which are not built again',
            hint=f"VERIFY {entry.name} compares them; DROP and CREATE starts anew.",
        )
    if core.has_lost:
        restore_lost(core)
    refresh_view(core, entry)  # errors show up here, where everything can be rolled back
    unshare(core, entry)
    before = None if entry.enumerator is not None else entry.block.maintainer.contents()
    fill_anew(core, entry)
    entry.refresh_kind = "full"
    if before is not None:
        after = entry.block.maintainer.contents()
        change = consolidate(concat(entry.schema, [after, before.negated()]))
        pass_on(core, entry, change)


def _change(new: ViewEntry, old: ViewEntry) -> Delta:
    """The delta from the replaced view to the new one; empty if one of them is factorized."""
    if not old.listeners and (new.enumerator is not None or old.enumerator is not None):
        return Delta.empty(new.schema)
    if _shape(new.schema) != _shape(old.schema):
        return new.block.maintainer.contents()  # rows of other columns cannot be deleted
    after, before = (each.block.maintainer.contents() for each in (new, old))
    return consolidate(concat(new.schema, [after, before.negated()]))


def pass_on(core: Core, entry: ViewEntry, change: Delta) -> None:
    """Send readers and listeners a change of a view that its sources did not cause."""
    try:
        outputs = _refresh_readers(core, entry, change)
    except BaseException:
        core.runtime.rollback()
        raise
    _publish_change(core, entry, change, outputs)


def _refresh_readers(core: Core, entry: ViewEntry, change: Delta) -> dict[str, Delta]:
    if not change.size:
        return {}
    return refresh_blocks(core, {entry.name: change}, core.catalog.immediate() - {entry.name})


def _publish_change(
    core: Core, entry: ViewEntry, change: Delta, outputs: Mapping[str, Delta]
) -> None:
    if change.size:
        notify(core, entry, change)
        publish(core, core.version, {entry.name: change}, outputs, core.now())


def _shape(schema: Schema) -> list[tuple[str, object]]:
    return [(field.name, field.type) for field in schema]


# Names.


def names_in(core: Core, query: exp.Expr) -> frozenset[str]:
    """Every name in FROM of a query's text, including the names in plain views."""
    found: set[str] = set()
    for table in query.find_all(exp.Table):
        if is_common_table(table):
            continue
        name = table.name.lower()
        found.add(name)
        entry = core.catalog.get(name)
        if isinstance(entry, PlainEntry):
            found |= entry.reads
    return frozenset(found)


def _refuse_cycle(core: Core, name: str, names: frozenset[str]) -> None:
    wanted = name.lower()
    for each in names:
        if each == wanted or wanted in core.catalog.reads_transitively(each):
            through = "" if each == wanted else f' through "{each}"'
            raise CyclicViews(
                f'view "{name}" would read itself{through}',
                hint="A view can read tables and views that do not rest on it.",
            )


def describe(core: Core) -> Describe:
    """A function that asks the engine for the columns of a query that we cannot lower."""

    def ask(text: str, scans: tuple[Scan, ...]) -> Schema:
        schemas = {scan.source: _source_schema(core, scan.source) for scan in scans}
        return core.engine.describe(text, schemas)

    return ask


def _source_schema(core: Core, name: str) -> Schema:
    entry = core.catalog.get(name)
    if isinstance(entry, TableEntry):
        return entry.table.schema
    assert isinstance(entry, ViewEntry)
    return entry.schema


# The stored form.


def own_text(
    statement: CreateTable | CreateView | CreateMaterializedView | CreateTemporalView, sql: str
) -> str:
    """The text of one statement out of a script."""
    return sql if statement.span is None else statement.span.text


def record(sql: str, **more: object) -> str:
    """A catalog object as text."""
    return json.dumps({"sql": sql, **more})


def table_record(core: Core, entry: TableEntry) -> str:
    """A table as text, with its tick and its declared arrival model."""
    more: dict[str, object] = {}
    if entry.name in core.ticks:
        more["tick"] = core.ticks[entry.name]
    model = core.arrivals_of(entry).model
    if model is not None:
        more["arrives"] = dataclasses.asdict(model)
    return record(entry.sql, kind="table", key=entry.key, **more)


def view_record(entry: ViewEntry) -> str:
    """A view as text; `stale` is the version it had when it became stale."""
    policies = [str(policy) for policy in entry.policies]
    known = {"since": entry.since, "stale": entry.stored_version}
    more = {name: value for name, value in known.items() if value is not None}
    return record(entry.sql, kind="view", policies=policies, created=entry.created, **more)


def save(core: Core, objects: Mapping[str, str | None]) -> None:
    """Commit a change of the catalog as one version."""
    core.require_writable()
    version = core.version + 1
    if core.store is not None:
        core.store.append(version, {}, objects)
    core.version = version


def alter_policies(
    core: Core,
    entry: ViewEntry,
    policies: tuple[Any, ...],
    recorded: Callable[[ViewEntry], str] | None = None,
) -> None:
    """Change when a view is refreshed.

    A view that becomes immediate takes its waiting changes first; if that fails, its policies stay
    as they are. Under any other policy the changes go on waiting.
    """
    before = entry.policies
    moves = bool(windows_in(entry)) and is_immediate(policies) != entry.is_immediate
    unshare(core, entry)
    if is_immediate(policies) or moves:
        refresh_view(core, entry)
    core.catalog.set_policies(entry, policies)
    stored = entry.stored_version
    if entry.is_immediate:
        entry.stored_version = None  # it is never stale again under this policy
    try:
        save(core, {entry.name: (recorded or view_record)(entry)})
    except BaseException:
        core.catalog.set_policies(entry, before)
        entry.stored_version = stored
        raise
    if moves:
        _build_windows_again(core, entry)


def _build_windows_again(core: Core, entry: ViewEntry) -> None:
    """Rebuild the windows of a view whose policies changed.

    A deferred window has a family of its own; an immediate one joins the family of its table.
    """
    core.runtime.remove(entry.name)
    for block in entry.blocks:
        block.maintainer = build(core, block.program, entry)
    fill_blocks(core, entry, entry.blocks)
    join(entry.blocks, entry.name)
    for block in entry.blocks:
        core.runtime.add(block)
    core.runtime.arrange([each.name for each in core.catalog.in_order()])
    note_readers(core, entry)

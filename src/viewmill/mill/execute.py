"""Execute statements.

takes  one parsed statement and its text
gives  a Result for SELECT, EXPLAIN and VERIFY, None for all others
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa
from sqlglot import exp

from viewmill.algebra.expressions import Cast, Column, Literal
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import encode_columns, shown
from viewmill.deltas.delta import Delta, concat
from viewmill.errors import (
    InvalidArgument,
    UnknownName,
    UnsupportedQuery,
    ViewmillError,
    nearest,
)
from viewmill.mill.broken_views import repair, replacing_broken
from viewmill.mill.catalog import BrokenEntry, PlainEntry, TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import (
    alter_policies,
    create_plain_view,
    create_table,
    create_view,
    describe,
    drop,
    plan_view,
)
from viewmill.mill.lazy_rows import counted_view, rows_for_limit
from viewmill.mill.readers import Result
from viewmill.mill.reading import history_tables, plan_select, refresh_sources, utc_now
from viewmill.mill.refresh import deliver_notices, refresh_due
from viewmill.mill.table_of_query import create_table_as
from viewmill.mill.temporal import create_temporal_view, temporal_record
from viewmill.mill.through_factorized import read_through
from viewmill.mill.unfit_values import FAILURES, unfit_insert, unfit_rows
from viewmill.mill.verify import Difference
from viewmill.planner.explain import explain
from viewmill.program.parts import PartQueries
from viewmill.rewrite.rules import rewrite
from viewmill.sql import statements as s
from viewmill.sql.lower import lower
from viewmill.sql.spans import span_of

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


def execute(mill: Mill, core: Core, statement: s.Statement, sql: str) -> Result | None:
    """Execute one statement."""
    match statement:
        case s.Query():
            return select(core, statement.query, sql)
        case s.Explain():
            return _explain(mill, core, statement, sql)
        case s.Verify():
            view = mill.view(statement.name)
            return _differences(view.verify(), core.catalog.view(statement.name).schema)
        case s.Insert() | s.Delete() | s.Update():
            with mill.changing():
                mill.change(statement.table, _delta_of(core, statement, sql))
        case s.CreateTableAs():
            create_table_as(mill, core, statement, sql)
        case s.RefreshView():
            if not _repaired(mill, core, statement):
                mill.view(statement.name).refresh(full=statement.full)
        case (
            s.CreateTable()
            | s.CreateView()
            | s.CreateMaterializedView()
            | s.CreateTemporalView()
            | s.AlterRefresh()
            | s.DropTable()
            | s.DropView()
        ):
            mill.require_no_batch()
            with core.write_lock:
                _define(core, statement, sql)
            deliver_notices(core)
        case _:
            assert_never(statement)
    return None


Definition = (
    s.CreateTable
    | s.CreateView
    | s.CreateMaterializedView
    | s.CreateTemporalView
    | s.AlterRefresh
    | s.DropTable
    | s.DropView
)


def _repaired(mill: Mill, core: Core, statement: s.RefreshView) -> bool:
    """Recreate the broken view that a statement names; False if it names none."""
    with core.write_lock:
        entry = core.catalog.get(statement.name)
        if not isinstance(entry, BrokenEntry):
            return False
        mill.require_no_batch()
        repair(core, entry)
    return True


def _define(core: Core, statement: Definition, sql: str) -> None:
    if isinstance(statement, s.CreateView | s.CreateMaterializedView | s.CreateTemporalView):
        with replacing_broken(core, statement.name) if statement.or_replace else nullcontext():
            _create_view(core, statement, sql)
        return
    match statement:
        case s.CreateTable():
            if statement.archive is not None and core.is_safe:
                raise UnsupportedQuery(
                    "ARCHIVE is not possible in a safe mill",
                    detail="It names a folder that is written to, and the SQL may be anybody's.",
                    hint="Open the mill without safe=True to create this table.",
                    span=statement.span,
                )
            create_table(core, statement, sql)
        case s.AlterRefresh():
            if statement.refresh_policy is not None:
                raise UnsupportedQuery(
                    "REFRESH POLICY cannot be altered",
                    hint="CREATE OR REPLACE the view with another REFRESH POLICY.",
                    span=statement.span,
                )
            broken = core.catalog.get(statement.name)
            if isinstance(broken, BrokenEntry):
                repair(core, broken, statement.policies)
                return
            entry = core.catalog.view(statement.name)
            is_part_query = isinstance(entry.plan.program.body, PartQueries)
            recorded = temporal_record if is_part_query else None
            alter_policies(core, entry, statement.policies, recorded)
            refresh_due(core, reading=None)
        case s.DropTable():
            core.catalog.require_unfollowed(statement.name)
            _drop(core, statement.name, statement.if_exists, TableEntry, "table")
        case s.DropView():
            kinds = (ViewEntry, BrokenEntry) + (() if statement.materialized else (PlainEntry,))
            _drop(core, statement.name, statement.if_exists, kinds, "view")
        case _:
            assert_never(statement)


def _create_view(
    core: Core,
    statement: s.CreateView | s.CreateMaterializedView | s.CreateTemporalView,
    sql: str,
) -> None:
    match statement:
        case s.CreateView():
            create_plain_view(core, statement, sql)
        case s.CreateMaterializedView():
            create_view(core, statement, sql)
        case s.CreateTemporalView():
            create_temporal_view(core, statement, sql)
        case _:
            assert_never(statement)


def _drop(core: Core, name: str, if_exists: bool, kinds: Any, word: str) -> None:
    entry = core.catalog.get(name)
    if entry is None and if_exists:
        return
    if not isinstance(entry, kinds):
        if entry is not None:
            other = "TABLE" if isinstance(entry, TableEntry) else "VIEW"
            raise UnknownName(f'"{entry.name}" is no {word}', hint=f"DROP {other} {entry.name}")
        raise UnknownName(f'no {word} "{name}"', hint=nearest(name, core.catalog.names()))
    drop(core, name)


# Reading.


def select(core: Core, query: exp.Query | exp.Values, sql: str) -> Result:
    """Run any SELECT over tables and views, at the last version."""
    with core.lock:
        planned = plan_select(core, query, sql)
        relation = planned.relation
        refresh_sources(core, planned)
        tables = history_tables(core, planned)
        counted = counted_view(core, relation)
        if counted is not None:
            result = Result(pa.table({counted[0]: [counted[1]]}))
        else:
            limited = rows_for_limit(core, relation)
            table = _run_through(core, relation, tables | limited, is_limited=bool(limited))
            result = Result(shown(table, relation.schema, core.dictionary))
    deliver_notices(core)
    return result


def _run_through(
    core: Core, relation: Relation, tables: dict[str, Any], *, is_limited: bool
) -> Any:
    """The rows of a query, through the definitions of the factorized views that it reads."""
    through = relation if is_limited else read_through(core, relation)
    if through is relation:
        return core.run(relation, tables=tables)
    try:
        return core.run(through, tables=tables)
    except ViewmillError:  # sums of parts may overflow where the sum of all does not
        return core.run(relation, tables=tables)


def _explain(mill: Mill, core: Core, statement: s.Explain, sql: str) -> Result:
    if isinstance(statement.of, str):
        text = str(mill.view(statement.of).explain())
    else:
        with core.lock:
            made, _ = plan_view(core, statement.of, sql)
        text = str(explain(made, "text", {"sql": sql}))
    return Result(pa.table({"plan": text.splitlines()}))


def _differences(found: list[Difference], schema: Schema) -> Result:
    columns: dict[str, list[Any]] = {
        name: [each.row[i] for each in found] for i, name in enumerate(schema.names)
    }
    columns["_expected"] = [each.expected for each in found]
    columns["_actual"] = [each.actual for each in found]
    return Result(pa.table(columns))


# Changing.


def _delta_of(core: Core, statement: s.Insert | s.Delete | s.Update, sql: str) -> Delta:
    schema = core.catalog.table(statement.table).table.schema
    match statement:
        case s.Insert():
            return _inserted(core, statement, schema, sql)
        case s.Delete():
            return _deleted(core, statement, schema, sql)
        case s.Update():
            return _updated(core, statement, schema, sql)


def _run(core: Core, sql: str, query: s.QueryTree, shape: Callable[[Relation], Relation]) -> Any:
    relation = lower(query, sql, core.catalog, describe(core), utc_now(core))
    return core.run(rewrite(shape(relation)))


def _inserted(core: Core, statement: s.Insert, schema: Schema, sql: str) -> Delta:
    names = statement.columns or schema.names
    positions = [_position(schema, name, statement) for name in names]
    if len(set(positions)) != len(positions):
        raise InvalidArgument("a column is named twice", span=statement.span)

    def shape(rows: Relation) -> Relation:
        if len(rows.schema) != len(positions):
            raise InvalidArgument(
                f"INSERT gives {len(rows.schema)} values for {len(positions)} columns",
                hint=f"The columns are {', '.join(names)}.",
                span=statement.span,
            )
        given = dict(zip(positions, rows.schema, strict=True))
        outputs = []
        for i, field in enumerate(schema):
            source = given.get(i)
            if source is None:
                outputs.append((field.name, Cast(Literal(None, field.type), field.type)))
                continue
            column = Column(source.name, source.type, source.nullable)
            outputs.append((field.name, Cast(column, field.type, source.nullable)))
        return Project(rows, tuple(outputs))

    run = partial(_run, core, sql)
    try:
        table = run(statement.source, shape)
    except FAILURES as why:
        fields = [schema[i] for i in positions]
        raise unfit_insert(why, statement.source, fields, run, sql) from why
    return encode_columns(schema, table, core.dictionary)


def _position(schema: Schema, name: str, statement: s.Insert | s.Update) -> int:
    position = schema.find(name)
    if position is None:
        raise UnknownName(
            f'no column "{name}" in table "{statement.table}"',
            hint=nearest(name, schema.names),
            span=statement.span,
        )
    return position


def _deleted(core: Core, statement: s.Delete, schema: Schema, sql: str) -> Delta:
    query = _rows_of(statement, [exp.Star()])
    table = _run(core, sql, query, lambda rows: rows)
    return encode_columns(schema, table, core.dictionary).negated()


def _updated(core: Core, statement: s.Update, schema: Schema, sql: str) -> Delta:
    new: dict[int, exp.Expr] = {}
    for name, value in statement.assignments:
        position = _position(schema, name, statement)
        if position in new:
            raise InvalidArgument(f'column "{name}" is set twice', span=statement.span)
        new[position] = value
    columns = [exp.column(name, quoted=True) for name in schema.names]
    shown: list[exp.Expr] = [*columns]
    for i, name in enumerate(schema.names):
        shown.append(exp.alias_(new.get(i, columns[i]).copy(), f"new {name}", quoted=True))
    query = _rows_of(statement, shown)
    width = len(schema)

    def shape(rows: Relation) -> Relation:
        outputs = []
        for i, source in enumerate(rows.schema):
            column = Column(source.name, source.type, source.nullable)
            target = schema[i % width]
            outputs.append((source.name, Cast(column, target.type, source.nullable)))
        return Project(rows, tuple(outputs))

    run = partial(_run, core, sql)
    try:
        table = run(query, shape)
    except FAILURES as why:
        spans = [None if each not in new else span_of(new[each], sql) for each in range(width)]
        raise unfit_rows(why, query, [*schema, *schema], run, [*spans, *spans]) from why
    old = encode_columns(schema, table.select(range(width)), core.dictionary)
    fresh = encode_columns(schema, table.select(range(width, 2 * width)), core.dictionary)
    return concat(schema, [old.negated(), fresh])


def _rows_of(statement: s.Delete | s.Update, shown: list[Any]) -> exp.Select:
    table = exp.Table(this=exp.to_identifier(statement.table, quoted=True))
    if statement.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(statement.alias, quoted=True)))
    query = exp.select(*shown).from_(table)
    if statement.where is not None:
        query = query.where(statement.where.copy())
    return query

"""Find the row and the column that an INSERT or UPDATE failed at.

takes  the error of the whole statement, a function that runs a query of it in another shape
gives  `InvalidRow` naming row and column, with the span of the value if it is in the text
next   execute, which raises it; only a statement that failed comes here
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from textwrap import shorten

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewmill.algebra.expressions import Cast, Column
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.schema import Field
from viewmill.errors import EvaluationFailed, InvalidRow, Overflow, Span, ViewmillError
from viewmill.sql import statements as s
from viewmill.sql.spans import span_of

FAILURES = (EvaluationFailed, Overflow)
_SHOWN = 60  # characters of a value

Shape = Callable[[Relation], Relation]
Run = Callable[[s.QueryTree, Shape], pa.Table]
Failure = EvaluationFailed | Overflow


def unfit_insert(
    why: Failure, source: s.QueryTree, fields: Sequence[Field], run: Run, sql: str
) -> ViewmillError:
    """The error of an INSERT of these rows into these columns."""
    if isinstance(source, exp.Values):
        return _unfit_literal(why, source, fields, run, sql)
    return unfit_rows(why, source, fields, run, [span_of(source, sql)] * len(fields))


def unfit_rows(
    why: Failure,
    query: s.QueryTree,
    fields: Sequence[Field],
    run: Run,
    spans: Sequence[Span | None],
) -> ViewmillError:
    """The error of a query whose columns do not fit; the query's own stays as it is."""
    try:
        table = run(query, lambda rows: _beside(rows, fields))
    except FAILURES:
        return why
    width = len(fields)
    for i, field in enumerate(fields):
        given, made = table.column(i), table.column(width + i)
        row = pc.index(pc.and_(given.is_valid(), made.is_null()), True).as_py()
        if row >= 0:
            return _unfit(row, field, reprlib.repr(given[row].as_py()), spans[i])
    return why


def _beside(rows: Relation, fields: Sequence[Field]) -> Relation:
    """The rows, and beside them the values of the columns' types, NULL for what does not fit."""
    columns = [Column(each.name, each.type, each.nullable) for each in rows.schema]
    given = [(f"given {i}", each) for i, each in enumerate(columns)]
    pairs = zip(columns, fields, strict=True)
    made = [(f"made {i}", Cast(each, to.type, True, True)) for i, (each, to) in enumerate(pairs)]
    return Project(rows, (*given, *made))


def _unfit_literal(
    why: Failure, source: exp.Values, fields: Sequence[Field], run: Run, sql: str
) -> ViewmillError:
    rows = source.expressions
    low, high = 0, len(rows)  # the rows up to `high` fail, those up to `low` do not
    while high - low > 1:
        middle = (low + high) // 2
        some = source.copy()
        some.set("expressions", [each.copy() for each in rows[:middle]])
        low, high = (low, middle) if _fails(some, fields, run) else (middle, high)
    for field, value in zip(fields, rows[low].expressions or [rows[low].this], strict=False):
        one = exp.select(exp.alias_(value.copy(), "value"))
        if not _fails(one, [field], run):
            continue
        span = span_of(value, sql)
        error = _error(one, run)
        if error is not None:
            where = f'row {low}, column "{field.name}": {error.message}'
            return type(error)(where, detail=error.detail, hint=error.hint, span=span)
        return _unfit(low, field, shorten(value.sql("spark"), _SHOWN), span)
    return why


def _fails(query: s.QueryTree, fields: Sequence[Field], run: Run) -> bool:
    def shape(rows: Relation) -> Relation:
        pairs = zip(rows.schema, fields, strict=True)
        outputs = [
            (to.name, Cast(Column(each.name, each.type, each.nullable), to.type, each.nullable))
            for each, to in pairs
        ]
        return Project(rows, tuple(outputs))

    try:
        run(query, shape)
    except FAILURES:
        return True
    return False


def _error(query: s.QueryTree, run: Run) -> Failure | None:
    try:
        run(query, lambda rows: rows)
    except FAILURES as why:
        return why
    return None


def _unfit(row: int, field: Field, shown: str, span: Span | None) -> InvalidRow:
    return InvalidRow(
        f'row {row} does not fit: column "{field.name}" is {field.type}, got {shown}',
        hint=f"Column {field}.",
        span=span,
    )

"""PIVOT and UNPIVOT as the queries that they stand for.

takes  a table with a Pivot node, its columns
gives  a SELECT with GROUP BY and FILTER, or a UNION ALL, over the same table
next   sql.lower_from lowers it like any subquery in FROM
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from sqlglot import exp

from viewmill.algebra.aggregates import DECLARED
from viewmill.algebra.types import Null, String, Type
from viewmill.errors import Span, TypeMismatch
from viewmill.sql.auto_names import auto_name
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.read_functions import read_function

_ZERO = (
    *("count", "count_if", "approx_count_distinct"),
    *(each.name for each in DECLARED.values() if not each.nullable),
)


def without_pivot(
    table: exp.Expr,
    again: exp.Expr,
    pivot: exp.Pivot,
    columns: Mapping[str, Type],
    sql: str,
    span: Span | None,
) -> exp.Query:
    """The query over `table`, which is called `again` where it is read once more."""
    if len(pivot.args.get("fields") or []) != 1 or pivot.args.get("group"):
        raise NotModelled("PIVOT of this form", span)
    if pivot.args.get("unpivot"):
        return _unpivoted(table, again, pivot, columns, span)
    return _pivoted(table, pivot, columns, sql, span)


def _pivoted(
    table: exp.Expr, pivot: exp.Pivot, names: Iterable[str], sql: str, span: Span | None
) -> exp.Query:
    """Every column that neither an aggregate nor FOR reads is a group."""
    (field,) = pivot.args["fields"]
    subjects = _parts(field.this)
    calls = pivot.expressions
    read = {each.name.lower() for node in (*subjects, *calls) for each in node.find_all(exp.Column)}
    groups = [_column(name) for name in names if name.lower() not in read]
    outputs: list[exp.Expr] = [each.copy() for each in groups]
    for value in field.expressions:
        options = _parts(value.this if isinstance(value, exp.PivotAlias) else value)
        if len(options) != len(subjects):
            raise NotModelled("PIVOT of this form", span)
        met = _all(
            exp.NullSafeEQ(this=subject.copy(), expression=option.copy())
            for subject, option in zip(subjects, options, strict=True)
        )
        name = _value_name(value, span)
        for call in calls:
            shown = name if len(calls) == 1 else f"{name}_{_call_name(call, sql)}"
            outputs.append(exp.alias_(_where(call, met), shown, quoted=True))
    query = exp.select(*outputs).from_(table)
    return query.group_by(*groups) if groups else query


def _where(call: exp.Expr, met: exp.Expr) -> exp.Expr:
    """The aggregate of the rows that meet a condition; NULL if there are none, counts too."""
    call = call.this if isinstance(call, exp.Alias) else call
    if isinstance(call, exp.Filter):
        raise NotModelled("PIVOT of an aggregate with FILTER")
    only = exp.Filter(this=call.copy(), expression=exp.Where(this=met.copy()))
    if read_function(call)[0] not in _ZERO:
        return only
    rows = exp.Filter(
        this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=met.copy())
    )
    some = exp.GT(this=rows, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=only)])


def _value_name(value: exp.Expr, span: Span | None) -> str:
    if isinstance(value, exp.PivotAlias):
        return str(value.args["alias"].name)
    if isinstance(value, exp.Literal | exp.Boolean):
        return str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
    if isinstance(value, exp.Null):
        return "null"
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        return f"-{value.this.name}"
    raise NotModelled("PIVOT of values without a name", span)


def _call_name(call: exp.Expr, sql: str) -> str:
    return call.alias if isinstance(call, exp.Alias) else auto_name(call, sql)


def _unpivoted(
    table: exp.Expr,
    again: exp.Expr,
    pivot: exp.Pivot,
    types: Mapping[str, Type],
    span: Span | None,
) -> exp.Query:
    """A SELECT for each column, rows whose value is NULL left out."""
    (field,) = pivot.args["fields"]
    options = field.expressions
    values = [_parts(each.this if isinstance(each, exp.PivotAlias) else each) for each in options]
    targets = _parts(pivot.expressions[0])
    used = {each.name.lower() for part in values for each in part}
    kept = [_column(name) for name in types if name.lower() not in used]
    by_name = {name.lower(): type_ for name, type_ in types.items()}
    for part in zip(*values, strict=False):
        _share_a_type([by_name.get(each.name.lower()) for each in part], span)
    queries: list[exp.Query] = []
    for option, columns in zip(options, values, strict=True):
        if len(columns) != len(targets):
            raise NotModelled("UNPIVOT of this form", span)
        label = (
            option.args["alias"].name
            if isinstance(option, exp.PivotAlias)
            else "_".join(each.name for each in columns)
        )
        named = [exp.alias_(exp.Literal.string(label), field.this.name, quoted=True)]
        pairs = zip(columns, targets, strict=True)
        shown = [exp.alias_(a.copy(), b.name, quoted=True) for a, b in pairs]
        query = exp.select(*[each.copy() for each in kept], *named, *shown).from_(
            again.copy() if queries else table
        )
        if not pivot.args.get("include_nulls"):
            present: list[exp.Expr] = [
                exp.Not(this=exp.Is(this=a.copy(), expression=exp.Null())) for a in columns
            ]
            query = query.where(reduce(lambda a, b: exp.Or(this=a, expression=b), present))
        queries.append(query)
    return reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), queries)


def _share_a_type(types: list[Type | None], span: Span | None) -> None:
    """UNPIVOT does not read strings as numbers, though a UNION does."""
    known = [each for each in types if each is not None and not isinstance(each, Null)]
    texts = [each for each in known if isinstance(each, String)]
    if texts and len(texts) < len(known):
        other = next(each for each in known if not isinstance(each, String))
        raise TypeMismatch(
            f"UNPIVOT needs columns of one type, got {other} and STRING",
            hint="Convert one of them with CAST before.",
            span=span,
        )


def _parts(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _all(conditions: Iterable[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: exp.And(this=a, expression=b), conditions)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))

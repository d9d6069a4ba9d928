"""Make joins of subqueries that give one value."""

from __future__ import annotations

from collections.abc import Iterable

from viewmill.algebra import expressions as e
from viewmill.algebra.aggregates import is_count
from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal, ScalarSubquery
from viewmill.algebra.relations import Aggregate, Join, JoinKind, Named, Project, Relation
from viewmill.algebra.types import BIGINT
from viewmill.algebra.walk import columns_of, map_parts, substitute
from viewmill.rewrite.correlation import (
    NotDecorrelated,
    Peeled,
    equal,
    fresh_copy,
    has_outer,
    is_free,
    linear,
    peel,
)

# NULL if an argument is.
_STRICT = ("+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "abs", "not")


def scalar_as_join(
    rows: Relation, expressions: Iterable[Expression], *, is_condition: bool
) -> tuple[Relation, list[Expression]]:
    """The rows with a column for each scalar subquery, and the expressions that read it there.

    before  Filter: l.quantity < (query)           after  Filter: l.quantity < avg
            ├─ Scan: lines l                              └─ Join inner: p.part = l.part
            └─ Subquery                                      ├─ Scan: lines l
               └─ Aggregate: avg(p.quantity)                 └─ Aggregate by p.part: avg
                  └─ Filter: p.part = l.part                    └─ Scan: lines p
                     └─ Scan: lines p

    A row whose group is empty must stay, with NULL (with 0 for a count): the join is a left one,
    unless the expression is a condition that NULL makes fail anyway.
    """
    read: list[Expression] = []
    for each in expressions:
        queries = [part for part in e.walk(each) if isinstance(part, ScalarSubquery)]
        for subquery in dict.fromkeys(queries):
            may_fail = is_condition and _fails_on_null(each, subquery)
            rows, value = _join(rows, subquery, inner=may_fail)
            each = replaced(each, subquery, value)
        read.append(each)
    return rows, read


def _join(rows: Relation, subquery: ScalarSubquery, *, inner: bool) -> tuple[Relation, Expression]:
    conditions, _, bottom = linear(subquery.query)
    if isinstance(bottom, Aggregate) and not bottom.keys and not conditions:
        shown = peel_group(subquery.query)
        return _join_group(rows, shown, bottom, subquery, inner=inner)
    return _join_row(rows, subquery)


def _join_row(rows: Relation, subquery: ScalarSubquery) -> tuple[Relation, Expression]:
    """A query that aggregates nothing must have one row at most; several are an error."""
    below = peel(subquery.query)
    ((name, value),) = below.outputs
    best = AggregateCall("max", (value,), value.type, True)
    count = AggregateCall("count", (), BIGINT, False)
    pairs = [correlated_equality(each, below.rows) for each in below.correlated]
    keys: tuple[Named, ...] = tuple((f"{name}#{i}", a) for i, (a, _) in enumerate(pairs))
    calls = ((f"{name}#max", best), (f"{name}#rows", count))
    grouped = Aggregate(below.rows, keys, calls)
    on = [
        equal(b, Column(k, a.type, a.nullable)) for (k, a), (_, b) in zip(keys, pairs, strict=True)
    ]
    arguments = (Column(calls[0][0], value.type, True), Column(calls[1][0], BIGINT, True))
    only = Call("only_row", arguments, value.type, True, subquery.span)
    kind: JoinKind = "left" if on else "cross"
    return Join(kind, rows, grouped, together(on), subquery.span), only


def peel_group(query: Relation) -> Peeled:
    """The projection above a group-by; correlated conditions stay below it."""
    conditions, outputs, bottom = linear(query)
    if conditions or any(has_outer(each) for _, each in outputs):
        raise NotDecorrelated
    return Peeled(bottom, (), outputs)


def _join_group(
    rows: Relation, shown: Peeled, group: Aggregate, subquery: ScalarSubquery, *, inner: bool
) -> tuple[Relation, Expression]:
    ((name, value),) = shown.outputs
    if is_free(group):
        one = Project(group, ((name, value),))
        column = Column(name, value.type, value.nullable)
        return Join("cross", rows, one, None, subquery.span), column
    below = peel(group.input)
    if not all(is_correlated_equality(each, below.rows) for each in below.correlated):
        below = with_outer_values(rows, below)
    pairs = [correlated_equality(each, below.rows) for each in below.correlated]
    keys: tuple[Named, ...] = tuple((f"{name}#{i}", a) for i, (a, _) in enumerate(pairs))
    inside = dict(below.outputs)
    calls = tuple((n, substitute(call, inside)) for n, call in group.aggregates)
    grouped = Aggregate(below.rows, keys, calls, None, group.span)  # type: ignore[arg-type]
    on = [
        equal(b, Column(k, a.type, a.nullable)) for (k, a), (_, b) in zip(keys, pairs, strict=True)
    ]
    counts = [n for n, call in group.aggregates if is_count(call)]
    kind = "inner" if inner and not counts and _is_strict(value, set(dict(calls))) else "left"
    by_name = {n: _after_join(n, call, counts) for n, call in group.aggregates}
    joined = Join(kind, rows, grouped, together(on), subquery.span)  # type: ignore[arg-type]
    return joined, substitute(value, by_name)


_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def with_outer_values(rows: Relation, below: Peeled) -> Peeled:
    """The subquery's rows for each different value that the query around asks for.

    before  s.a < r.a                 after  r.a#value = r.a, over
                                             Join inner: s.a < r.a#value
                                             ├─ Scan: s
                                             └─ Aggregate by r.a AS r.a#value
                                                └─ Scan: r
    """
    for each in below.correlated:
        if not isinstance(each, Call) or each.function not in _COMPARISONS:
            raise NotDecorrelated  # it may be true of NULL
    read = set().union(*(columns_of(each) for each in below.correlated))
    asked = [field for field in rows.schema if field.name in read]
    if not asked or read - {f.name for f in asked} - set(below.rows.schema.names):
        raise NotDecorrelated
    copy, names = fresh_copy(rows, "#asked")
    keys: tuple[Named, ...] = tuple(
        (f"{f.name}#value", Column(names[f.name], f.type, f.nullable)) for f in asked
    )
    values = Aggregate(copy, keys, ())
    by_name: dict[str, Expression] = {
        f.name: Column(k, f.type, f.nullable) for f, (k, _) in zip(asked, keys, strict=True)
    }
    on = together([substitute(each, by_name) for each in below.correlated])
    joined = Join("inner", below.rows, values, on)
    equalities = [equal(by_name[f.name], Column(f.name, f.type, f.nullable)) for f in asked]
    return Peeled(joined, tuple(equalities), below.outputs)


def is_correlated_equality(condition: Expression, inner: Relation) -> bool:
    """Whether `correlated_equality` has an answer."""
    try:
        correlated_equality(condition, inner)
    except NotDecorrelated:
        return False
    return True


def _after_join(name: str, call: Expression, counts: list[str]) -> Expression:
    column = Column(name, call.type, True)
    if name not in counts:
        return column
    return Call("coalesce", (column, Literal(0, call.type)), call.type, False)


def correlated_equality(condition: Expression, inner: Relation) -> tuple[Expression, Expression]:
    """The inner and the outer side of a correlated equality, or `NotDecorrelated`."""
    names = set(inner.schema.names)
    if isinstance(condition, Call) and condition.function == "=":
        a, b = condition.arguments
        for mine, other in ((a, b), (b, a)):
            if columns_of(mine) <= names and columns_of(mine) and not columns_of(other) & names:
                return mine, other
    raise NotDecorrelated


def _fails_on_null(condition: Expression, subquery: ScalarSubquery) -> bool:
    """Whether a condition is not true when the subquery is NULL."""
    if condition == subquery:
        return True
    match condition:
        case Call(function=function) if function in _STRICT:
            return any(_fails_on_null(each, subquery) for each in condition.arguments)
        case Cast():
            return _fails_on_null(condition.input, subquery)
        case _:
            return False


def _is_strict(value: Expression, names: set[str]) -> bool:
    """Whether a value is NULL when these columns are."""
    match value:
        case Column():
            return value.name in names
        case Cast():
            return _is_strict(value.input, names)
        case Call(function=function) if function in _STRICT:
            return any(_is_strict(each, names) for each in value.arguments)
        case _:
            return False


def replaced(expression: Expression, subquery: Expression, value: Expression) -> Expression:
    """The expression with another one in the place of a subquery."""
    if expression == subquery:
        return value
    return map_parts(expression, lambda part: replaced(part, subquery, value))

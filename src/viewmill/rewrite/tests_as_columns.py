"""Make a column of EXISTS and IN where they are no condition of their own: under OR, in CASE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viewmill.algebra import expressions as e
from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import (
    Call,
    Case,
    Column,
    Exists,
    Expression,
    InSubquery,
    Literal,
)
from viewmill.algebra.relations import Aggregate, Join, Named, Project, Relation
from viewmill.algebra.schema import free_names
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.rewrite.correlation import NotDecorrelated, Peeled, equal, fresh_copy, peel
from viewmill.rewrite.scalar_as_join import (
    correlated_equality,
    is_correlated_equality,
    replaced,
    with_outer_values,
)

Pairs = list[tuple[Expression, Expression]]  # of the subquery, of the query around it


def tests_as_columns(
    rows: Relation, expressions: Iterable[Expression]
) -> tuple[Relation, list[Expression]]:
    """The rows with columns that answer each test, and the expressions that read them there.

    before  Filter: r.b > 3 OR EXISTS (query)        after  Filter: r.b > 3 OR #rows IS NOT NULL
            ├─ Scan: r                                      └─ Join left: #key = r.a
            └─ Subquery                                        ├─ Scan: r
               └─ Filter: s.a = r.a                            └─ Aggregate by s.a: count(*) #rows
                  └─ Scan: s                                      └─ Scan: s

    IN is NULL where it is not known: for NULL among a list that is not empty, and for what is not
    found in a list with a NULL.
    """
    read: list[Expression] = []
    for each in expressions:
        tests = [part for part in e.walk(each) if isinstance(part, Exists | InSubquery)]
        for test in dict.fromkeys(tests):
            rows, value = _exists(rows, test) if isinstance(test, Exists) else _in(rows, test)
            each = replaced(each, test, value)
        read.append(each)
    return rows, read


def _exists(rows: Relation, test: Exists) -> tuple[Relation, Expression]:
    inner = _by_equality(rows, peel(test.query))
    if isinstance(inner.rows, Aggregate) and not inner.rows.keys:
        raise NotDecorrelated  # it has a row whatever it reads
    joined, (count,) = _join_counts(rows, inner, _pairs(inner), (), (_count(()),), "exists")
    return joined, _positive(count)


def _in(rows: Relation, test: InSubquery) -> tuple[Relation, Expression]:
    inner = _by_equality(rows, peel(test.query))
    pairs, members = _pairs(inner), [each for _, each in inner.outputs]
    own = list(zip(members, test.values, strict=True))
    joined, (found,) = _join_counts(rows, inner, pairs, own, (_count(()),), "in")
    if not any(each.nullable for each in (*members, *test.values)):
        return joined, _positive(found)
    if len(members) != 1:
        raise NotDecorrelated
    copy, names = fresh_copy(Project(inner.rows, (*_named(pairs), *inner.outputs)), "#all")
    again: Pairs = [
        (Column(names[name], each.type, each.nullable), outer)
        for (name, each), (_, outer) in zip(_named(pairs), pairs, strict=True)
    ]
    member = Column(names[inner.outputs[0][0]], members[0].type, members[0].nullable)
    whole = Peeled(copy, (), ())
    calls = (_count(()), _count((member,)))
    joined, (all_rows, known) = _join_counts(joined, whole, again, (), calls, "all")
    (value,) = test.values
    null = Call("is_null", (value,), BOOLEAN, False)
    unknown = _both(
        _positive(all_rows), _either(null, Call("<", (known, all_rows), BOOLEAN, False))
    )
    answer = Case(
        ((_positive(found), Literal(True, BOOLEAN)), (unknown, Literal(None, BOOLEAN))),
        Literal(False, BOOLEAN), BOOLEAN, True,
    )  # fmt: skip
    return joined, answer


def _by_equality(rows: Relation, inner: Peeled) -> Peeled:
    """The subquery with equalities only; other comparisons meet the values that are asked for."""
    if all(is_correlated_equality(each, inner.rows) for each in inner.correlated):
        return inner
    return with_outer_values(rows, inner)


def _pairs(inner: Peeled) -> Pairs:
    return [correlated_equality(each, inner.rows) for each in inner.correlated]


def _named(pairs: Pairs) -> tuple[Named, ...]:
    return tuple((f"#key{i}", each) for i, (each, _) in enumerate(pairs))


def _join_counts(
    rows: Relation,
    inner: Peeled,
    pairs: Pairs,
    more: Sequence[tuple[Expression, Expression]],
    calls: tuple[AggregateCall, ...],
    mark: str,
) -> tuple[Relation, list[Expression]]:
    """The rows with counts of the subquery's rows that are equal to them in `pairs` and `more`."""
    own = f"{inner.rows.schema.names[0]}#{mark}"
    every = [*pairs, *more]
    # Another test may have been joined before under the same names.
    wanted = [*(f"{own}{i}" for i in range(len(every))), *(f"{own}#{i}" for i in range(len(calls)))]
    names = free_names(wanted, rows.schema.names)
    keys: tuple[Named, ...] = tuple(
        (name, each) for name, (each, _) in zip(names[: len(every)], every, strict=True)
    )
    counts = tuple(zip(names[len(every) :], calls, strict=True))
    grouped = Aggregate(inner.rows, keys, counts)
    columns = [Column(name, BIGINT, True) for name, _ in counts]
    values: list[Expression] = [
        Call("coalesce", (column, Literal(0, BIGINT)), BIGINT, False) for column in columns
    ]
    if not every:
        return Join("cross", rows, grouped), values
    on = [
        equal(outer, Column(name, each.type, each.nullable))
        for (name, each), (_, outer) in zip(keys, every, strict=True)
    ]
    return Join("left", rows, grouped, together(on)), values


def _count(arguments: tuple[Expression, ...]) -> AggregateCall:
    return AggregateCall("count", arguments, BIGINT, False)


def _positive(count: Expression) -> Expression:
    return Call(">", (count, Literal(0, BIGINT)), BOOLEAN, False)


def _both(left: Expression, right: Expression) -> Expression:
    return Call("and", (left, right), BOOLEAN, False)


def _either(left: Expression, right: Expression) -> Expression:
    return Call("or", (left, right), BOOLEAN, False)

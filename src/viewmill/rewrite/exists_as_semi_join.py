"""Make semi joins of EXISTS and IN, anti joins of NOT EXISTS and NOT IN."""

from __future__ import annotations

from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Exists, Expression, InSubquery, Literal
from viewmill.algebra.relations import Aggregate, Filter, Join, Project, Relation
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.rewrite.correlation import (
    NotDecorrelated,
    Peeled,
    equal,
    fresh_copy,
    own_columns,
    peel,
)


def exists_as_semi_join(rows: Relation, condition: Expression) -> Relation | None:
    """The rows that meet a condition that is EXISTS or IN or the opposite; None if it is another.

    before  Filter: EXISTS (query)                      after  Join semi: l.order_id = o.id
            ├─ Scan: orders o                                  ├─ Scan: orders o
            └─ Subquery                                        └─ Scan: lines l
               └─ Filter: l.order_id = o.id
                  └─ Scan: lines l
    """
    negated = isinstance(condition, Call) and condition.function == "not"
    test = condition.arguments[0] if isinstance(condition, Call) and negated else condition
    if isinstance(test, Exists):
        return _exists(rows, test, negated=negated)
    if isinstance(test, InSubquery):
        return _not_in(rows, test) if negated else _in(rows, test)
    return None


def _exists(rows: Relation, test: Exists, *, negated: bool) -> Relation:
    inner = peel(test.query)
    _refuse_one_row(inner)
    kind = "anti" if negated else "semi"
    return Join(kind, rows, inner.rows, together(inner.correlated), test.span)  # type: ignore[arg-type]


def _refuse_one_row(inner: Peeled) -> None:
    """Refuse a GROUP BY without keys: it has a row whatever it reads, which is no semi join."""
    if isinstance(inner.rows, Aggregate) and not inner.rows.keys:
        raise NotDecorrelated


def _in(rows: Relation, test: InSubquery) -> Relation:
    inner = peel(test.query)
    return Join("semi", rows, inner.rows, _membership(test, inner), test.span)


def _membership(test: InSubquery, inner: Peeled) -> Expression:
    pairs = zip(test.values, inner.outputs, strict=True)
    condition = together([*(equal(a, b) for a, (_, b) in pairs), *inner.correlated])
    assert condition is not None
    return condition


def _not_in(rows: Relation, test: InSubquery) -> Relation:
    """NOT IN is an anti join if no NULL can be there; else NULL must be asked for.

    x NOT IN (query) is true if the query has no row, or if x is not NULL, no row of the query is
    NULL and none is x. Whether it has rows and whether one is NULL are facts about all of it.
    """
    inner = peel(test.query)
    members = [each for _, each in inner.outputs]
    nullable = any(each.nullable for each in (*test.values, *members))
    met = Join("anti", rows, inner.rows, _membership(test, inner), test.span)
    if not nullable:
        return met
    if len(test.values) != 1:
        return Join("anti", rows, inner.rows, _perhaps_equal(test, inner), test.span)
    if inner.correlated:
        raise NotDecorrelated
    facts = _facts(inner)
    none, whole = (Column(f.name, f.type, f.nullable) for f in facts.schema)
    known = Call("not", (Call("is_null", test.values, BOOLEAN, False),), BOOLEAN, False)
    certain = Call("and", (known, whole), BOOLEAN, False)
    judged = Filter(Join("cross", met, facts), Call("or", (none, certain), BOOLEAN, False))
    return own_columns(judged, rows)


def _perhaps_equal(test: InSubquery, inner: Peeled) -> Expression:
    """Whether rows are not certainly different: then NOT IN is not true."""
    differ: Expression | None = None
    for a, (_, b) in zip(test.values, inner.outputs, strict=True):
        each = Call("<>", (a, b), BOOLEAN, a.nullable or b.nullable)
        differ = each if differ is None else Call("or", (differ, each), BOOLEAN, True)
    assert differ is not None
    certain = Call("coalesce", (differ, Literal(False, BOOLEAN)), BOOLEAN, False)
    condition = together([Call("not", (certain,), BOOLEAN, False), *inner.correlated])
    assert condition is not None
    return condition


def _facts(inner: Peeled) -> Relation:
    """One row: whether the query has no row, and whether none of its rows is NULL."""
    copy, names = fresh_copy(Project(inner.rows, inner.outputs), "#facts")
    (member,) = inner.outputs
    value = Column(names[member[0]], member[1].type, member[1].nullable)
    counts = Aggregate(
        copy,
        (),
        (
            ("#rows", AggregateCall("count", (), BIGINT, False)),
            ("#members", AggregateCall("count", (value,), BIGINT, False)),
        ),
    )
    rows, members = (Column(name, BIGINT, False) for name in ("#rows", "#members"))
    none = equal(rows, Literal(0, BIGINT))
    mark = copy.schema.names[0]
    return Project(counts, ((f"{mark}#none", none), (f"{mark}#whole", equal(rows, members))))

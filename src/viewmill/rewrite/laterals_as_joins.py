"""Make joins of LATERAL subqueries, which read the row that they are joined to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from viewmill.algebra.aggregates import is_count
from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import (
    Call,
    Case,
    Column,
    Expression,
    Literal,
    Over,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Limit,
    Named,
    Project,
    Relation,
    Sort,
    Window,
)
from viewmill.algebra.types import BOOLEAN, INT
from viewmill.algebra.walk import (
    columns_of,
    expressions,
    has_subquery,
    substitute,
    walk_relations,
)
from viewmill.rewrite.correlation import (
    NotDecorrelated,
    Peeled,
    equal,
    from_inside,
    has_outer,
    is_free,
    linear,
    map_expressions,
    own_columns,
    transform_everywhere,
)
from viewmill.rewrite.scalar_as_join import (
    correlated_equality,
    is_correlated_equality,
    replaced,
    with_outer_values,
)


@dataclass(frozen=True)
class _Met:
    """A subquery as `rows` that meet a row of the left side where `on` is true.

    `outputs` are over the columns of both. With `always` each row of the left has one row there:
    an aggregate without GROUP BY; `above` is then what is asked of that row.
    """

    rows: Relation
    on: tuple[Expression, ...]
    outputs: tuple[Named, ...]
    always: bool = False
    above: tuple[Expression, ...] = ()


def laterals_as_joins(query: Relation) -> Relation:
    """Conditions on the left row become conditions of the join.

    before  Join inner, lateral          after  Join inner: u.k = t.k
            ├─ Scan: t                          ├─ Scan: t
            └─ Limit: 2                         └─ Filter: #rank <= 2
               └─ Sort: u.y                        └─ Window: row_number() OVER
                  └─ Filter: u.k = t.k                │   (PARTITION BY u.k ORDER BY u.y) AS #rank
                     └─ Scan: u                       └─ Scan: u

    A subquery of a form that is not known stays where it is.
    """
    return transform_everywhere(query, lambda relation: _joined(_with_first_rows(relation)))


def _with_first_rows(relation: Relation) -> Relation:
    """Subqueries that give the value of a first row, ORDER BY with LIMIT 1, are joined so too."""
    if not isinstance(relation, Filter | Project):
        return relation
    like = relation.input
    parts = (part for each in expressions(relation) for part in walk(each))
    for part in dict.fromkeys(p for p in parts if isinstance(p, ScalarSubquery)):
        limit = linear(part.query)[2]
        if not isinstance(limit, Limit) or limit.count != 1 or is_free(part.query):
            continue
        joined = _joined(Join("left", relation.input, part.query, None, part.span, lateral=True))
        if isinstance(joined, Join):
            continue  # of a form that is not known
        value = Column(part.query.schema.names[0], part.type, True)
        changed = map_expressions(relation, partial(replaced, subquery=part, value=value))
        assert isinstance(changed, Filter | Project)
        relation = replace(changed, input=joined)
    return own_columns(relation, like) if isinstance(relation, Filter) else relation


def lateral_in(query: Relation) -> Join | None:
    """A join whose right side reads its left, if there is one."""
    found = (e for e in walk_relations(query) if isinstance(e, Join) and e.lateral)
    return next(found, None)


def _joined(relation: Relation) -> Relation:
    if not isinstance(relation, Join) or not relation.lateral:
        return relation
    try:
        met = _meet(relation.left, relation.right)
        if relation.kind == "left":
            return _left(relation, met)
        return _inner(relation, met)
    except NotDecorrelated:
        return relation


def _inner(join: Join, met: _Met) -> Relation:
    kind: JoinKind = "left" if met.always else "inner"
    rows: Relation = Join("cross", join.left, met.rows, None, join.span)
    if met.on:
        rows = Join(kind, join.left, met.rows, together(met.on), join.span)
    asked = () if join.condition is None else tuple(conjuncts(join.condition))
    outputs = dict(met.outputs)
    rows = filtered(rows, [*met.above, *(substitute(each, outputs) for each in asked)])
    return Project(rows, (*_columns(join.left), *met.outputs), join.span)


def _left(join: Join, met: _Met) -> Relation:
    """A LEFT JOIN LATERAL: without a match every output is NULL, even a constant one."""
    if met.always:
        if met.above or join.condition is not None:
            raise NotDecorrelated
        return _inner(join, met)
    outputs = dict(met.outputs)
    asked = () if join.condition is None else tuple(conjuncts(join.condition))
    on = [*met.on, *(substitute(each, outputs) for each in asked)]
    mark = f"{join.right.schema.names[0]}#met"
    rows = Project(met.rows, (*_columns(met.rows), (mark, Literal(True, BOOLEAN))))
    is_alone = Call("is_null", (Column(mark, BOOLEAN, True),), BOOLEAN, False)
    shown: list[Named] = []
    for name, each in met.outputs:
        if isinstance(each, Column) and each.name in met.rows.schema.names:
            shown.append((name, replace(each, nullable=True)))
        else:
            none = Literal(None, each.type)
            shown.append((name, Case(((is_alone, none),), each, each.type, True)))
    condition = together(on) or Literal(True, BOOLEAN)
    joined = Join("left", join.left, rows, condition, join.span)
    return Project(joined, (*_columns(join.left), *shown), join.span)


def _columns(relation: Relation) -> tuple[Named, ...]:
    return tuple((f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema)


def _meet(left: Relation, query: Relation) -> _Met:
    """What of a subquery is met by a row of the left, or `NotDecorrelated`."""
    if isinstance(query, Sort):
        query = query.input
    conditions, outputs, bottom = linear(query)
    if any(map(has_subquery, (*conditions, *(each for _, each in outputs)))):
        raise NotDecorrelated
    below = _bottom(left, bottom)
    names = dict(below.outputs)
    own = [c for c in conditions if not has_outer(c) and not _reads(c, names, left)]
    outer = [c for c in conditions if c not in own]
    met = tuple(substitute(from_inside(each), names) for each in outer)
    shown = tuple((name, substitute(from_inside(each), names)) for name, each in outputs)
    if below.always:
        above = (*(substitute(each, names) for each in own), *met)
        return replace(below, outputs=shown, above=(*below.above, *above))
    rows = filtered(below.rows, [substitute(each, names) for each in own])
    return replace(below, rows=rows, on=(*below.on, *met), outputs=shown)


def _reads(condition: Expression, names: dict[str, Expression], left: Relation) -> bool:
    """Whether a condition is over an output that hangs on the left row."""
    return bool(columns_of(substitute(condition, names)) & set(left.schema.names))


def _bottom(left: Relation, bottom: Relation) -> _Met:
    if is_free(bottom):
        return _Met(bottom, (), _columns(bottom))
    match bottom:
        case Aggregate(grouping_sets=None):
            return _group(left, bottom)
        case Limit(input=Sort()):
            return _first(left, bottom)
        case Distinct():
            below, keys, on = _apart(left, bottom.input)
            named = tuple((f"{name}#once", each) for name, each in below.outputs)
            rows = Aggregate(below.rows, (*named, *keys), (), None, bottom.span)
            shown = [(n, Column(f"{n}#once", e.type, e.nullable)) for n, e in below.outputs]
            return _Met(rows, on, tuple(shown))
        case _:
            raise NotDecorrelated


def _apart(
    left: Relation, query: Relation
) -> tuple[_Met, tuple[Named, ...], tuple[Expression, ...]]:
    """A subquery whose rows know what of the left they belong to: keys, and how they meet it."""
    met = _meet(left, query)
    names = set(left.schema.names)
    if met.always or any(columns_of(each) & names for _, each in met.outputs):
        raise NotDecorrelated
    peeled = Peeled(met.rows, met.on, met.outputs)
    if not all(is_correlated_equality(each, met.rows) for each in met.on):
        peeled = with_outer_values(left, peeled)
    pairs = [correlated_equality(each, peeled.rows) for each in peeled.correlated]
    first = query.schema.names[0] if query.schema.names else left.schema.names[0]
    keys: tuple[Named, ...] = tuple((f"{first}#with{i}", a) for i, (a, _) in enumerate(pairs))
    on = tuple(
        equal(b, Column(k, a.type, a.nullable)) for (k, a), (_, b) in zip(keys, pairs, strict=True)
    )
    return _Met(peeled.rows, peeled.correlated, peeled.outputs), keys, on


def _group(left: Relation, group: Aggregate) -> _Met:
    below, keys, on = _apart(left, group.input)
    names = dict(below.outputs)
    own = (*group.keys, *group.aggregates)
    if any(has_outer(each) for _, each in own):
        raise NotDecorrelated
    inside = tuple((name, substitute(each, names)) for name, each in group.keys)
    calls = []
    for name, each in group.aggregates:
        call = substitute(each, names)
        assert isinstance(call, AggregateCall)
        calls.append((name, call))
    rows = Aggregate(below.rows, (*inside, *keys), tuple(calls), None, group.span)
    if group.keys:
        return _Met(rows, on, _columns(group))
    shown: list[Named] = []
    for name, call in group.aggregates:
        column: Expression = Column(name, call.type, True)
        if is_count(call):
            column = Call("coalesce", (column, Literal(0, call.type)), call.type, False)
        shown.append((name, column))
    return _Met(rows, on, tuple(shown), always=True)


def _first(left: Relation, limit: Limit) -> _Met:
    sort = limit.input
    assert isinstance(sort, Sort)
    below, keys, on = _apart(left, sort.input)
    names = dict(below.outputs)
    if any(has_outer(each.expression) for each in sort.keys):
        raise NotDecorrelated
    shown: tuple[Named, ...] = tuple((f"{name}#first", each) for name, each in below.outputs)
    given = Project(below.rows, (*shown, *keys))
    own = {n: Column(f"{n}#first", e.type, e.nullable) for n, e in names.items()}
    order = tuple(replace(k, expression=substitute(k.expression, own)) for k in sort.keys)
    partition = tuple(Column(k, each.type, each.nullable) for k, each in keys)
    rank = f"{sort.schema.names[0]}#rank"
    over = Over("row_number", (), partition, order, None, INT, False, span=limit.span)
    rows: Relation = Window(given, ((rank, over),), limit.span)
    number = Column(rank, INT, False)
    if limit.count is not None:
        most = Literal(limit.offset + limit.count, INT)
        rows = Filter(rows, Call("<=", (number, most), BOOLEAN, False))
    if limit.offset:
        rows = Filter(rows, Call(">", (number, Literal(limit.offset, INT)), BOOLEAN, False))
    return _Met(rows, on, tuple(own.items()))

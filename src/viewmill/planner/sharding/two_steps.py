"""Groups compared with all: an aggregate by an equal column against a global one, in two steps.

takes  an aggregate of one table's rows, filtered by a comparison of subqueries over the same table
gives  one row of each group for the shards to keep, and what the driver makes of all groups; None
       where the query is not of that form

SELECT sum(b.volume) FROM bids b
WHERE (SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker)
    > 0.2 * (SELECT sum(y.volume) FROM bids y)

Rows are cut by broker. A shard keeps for each of its brokers the sum inside, the part of the global
sum, and the part of the result. First the driver merges the global value, then it takes the groups
for which the comparison holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewmill.algebra import expressions as e
from viewmill.algebra.aggregates import is_count
from viewmill.algebra.conditions import filtered, together
from viewmill.algebra.relations import Aggregate, Filter, Project, Relation, Scan
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.algebra.walk import columns_of, has_subquery, map_parts, substitute
from viewmill.planner.sharding.partials import Calls, Halves, halve
from viewmill.planner.sharding.placed import conjuncts, plain_column
from viewmill.rewrite.correlation import fresh_copy, has_outer

_ROWS = "rows of group"


@dataclass(frozen=True)
class TwoSteps:
    """`column` is what rows are cut by; `halves` as of any aggregate whose parts are merged."""

    scan: Scan
    column: str
    halves: Halves


@dataclass(frozen=True)
class _Inside:
    """A subquery: its aggregates by names that no other has, what it shows, which rows it takes."""

    aggregate: Aggregate
    shown: e.Expression
    conditions: tuple[e.Expression, ...]
    column: str | None  # of the row outside that it is about; None when it is about all


def two_steps(aggregate: Aggregate) -> TwoSteps | None:
    """The two steps of an aggregate, if it has them."""
    below = aggregate.input
    if not isinstance(below, Filter) or not isinstance(below.input, Scan) or below.input.window:
        return None
    scan, outside = below.input, halve(aggregate, floats="added")
    compared = [each for each in conjuncts(below.condition) if has_subquery(each)]
    plain = [each for each in conjuncts(below.condition) if not has_subquery(each)]
    inside = _insides(compared, scan)
    if outside is None or inside is None:
        return None
    columns = {each.column for each in inside.values()} - {None}
    read = {name for each in compared for name in columns_of(each)}
    if len(columns) != 1 or not read <= columns:
        return None
    (column,) = columns
    if column is None or any(plain_column(key) != column for _, key in aggregate.keys):
        return None
    key = _column(scan, column)
    calls = [(_ROWS, e.Aggregate("count", (), BIGINT, nullable=False)), *outside.part.aggregates]
    kept = _filtered(calls, plain)
    merges: dict[e.ScalarSubquery, Halves] = {}
    for query, each in inside.items():
        halves = halve(each.aggregate, floats="added") if each.column is None else None
        if halves is not None:
            merges[query] = halves
        elif each.column is None:
            return None
        mine = each.aggregate.aggregates if halves is None else halves.part.aggregates
        kept += _filtered(mine, each.conditions)
    keys = aggregate.keys or ((column, key),)

    def merge(back: Relation) -> Relation:
        of_group = e.Column(keys[0][0], key.type, key.nullable)
        shown = {
            query: _of_all(back, each, merges[query], query)
            if each.column is None
            else _of_group(of_group, each)
            for query, each in inside.items()
        }
        again = {column: of_group}
        some = e.Call(">", (e.Column(_ROWS, BIGINT), e.Literal(0, BIGINT)), BOOLEAN)
        conditions = [substitute(_replaced(each, shown), again) for each in compared]
        return outside.merge(filtered(back, [some, *conditions]))

    return TwoSteps(scan, column, Halves(Aggregate(scan, keys, tuple(kept)), merge))


def _insides(compared: list[e.Expression], scan: Scan) -> dict[e.ScalarSubquery, _Inside] | None:
    found: dict[e.ScalarSubquery, _Inside] = {}
    for part in (part for each in compared for part in e.walk(each)):
        if isinstance(part, e.Exists | e.InSubquery):
            return None
        if isinstance(part, e.ScalarSubquery):
            inside = _inside(part.query, scan, len(found))
            if inside is None:
                return None
            found[part] = inside
    return found


def _inside(query: Relation, outer: Scan, number: int) -> _Inside | None:
    if not isinstance(query, Project) or not isinstance(query.input, Aggregate):
        return None
    aggregate = query.input
    below: Relation = aggregate.input
    conditions: list[e.Expression] = []
    if isinstance(below, Filter):
        conditions = [*conjuncts(below.condition)]
        below = below.input
    if not isinstance(below, Scan) or below.window or below.source != outer.source:
        return None
    ((_, shown),) = query.outputs
    if aggregate.keys or has_outer(shown) or any(map(has_subquery, [shown, *conditions])):
        return None
    correlated = [each for each in conditions if has_outer(each)]
    column = _equal_column(correlated[0], below, outer) if len(correlated) == 1 else None
    if correlated and column is None:
        return None
    as_outer = _renaming(below, outer)
    calls = tuple((f"{number} {n}", substitute(c, as_outer)) for n, c in aggregate.aggregates)
    names = {n: e.Column(f"{number} {n}", c.type, c.nullable) for n, c in aggregate.aggregates}
    free = tuple(substitute(each, as_outer) for each in conditions if not has_outer(each))
    made = replace(aggregate, input=outer, aggregates=calls)  # type: ignore[arg-type]
    return _Inside(made, substitute(shown, names), free, column)


def _equal_column(condition: e.Expression, inner: Scan, outer: Scan) -> str | None:
    """The column of the table that a condition says to be equal inside and outside."""
    if not isinstance(condition, e.Call) or condition.function != "=":
        return None
    sides = [each for each in condition.arguments if isinstance(each, e.Column)]
    for one, other in (sides, sides[::-1]) if len(sides) == 2 else ():
        own = one.name.removeprefix(f"{inner.alias}.")
        if (one.outer, other.outer) == (0, 1) and other.name == f"{outer.alias}.{own}":
            return other.name
    return None


def _renaming(inner: Scan, outer: Scan) -> dict[str, e.Expression]:
    own = {field.name.removeprefix(f"{outer.alias}."): field for field in outer.schema}
    found: dict[str, e.Expression] = {}
    for field in inner.schema:
        other = own.get(field.name.removeprefix(f"{inner.alias}."))
        if other is not None:
            found[field.name] = e.Column(other.name, other.type, other.nullable)
    return found


def _column(scan: Scan, name: str) -> e.Column:
    field = next(each for each in scan.schema if each.name == name)
    return e.Column(field.name, field.type, field.nullable)


def _filtered(
    calls: Iterable[tuple[str, e.Aggregate]], conditions: Sequence[e.Expression]
) -> Calls:
    """The calls over the rows that meet the conditions."""
    return [(name, replace(call, where=_where(call, conditions))) for name, call in calls]


def _where(call: e.Aggregate, conditions: Sequence[e.Expression]) -> e.Expression | None:
    return together([*([] if call.where is None else [call.where]), *conditions])


# The driver's part.


def _of_group(key: e.Column, inside: _Inside) -> e.Expression:
    """The value inside as a shard gave it; a NULL equals nothing, so there it is of no rows."""
    if not key.nullable:
        return inside.shown
    unknown = e.Call("is_null", (key,), BOOLEAN, nullable=False)
    guarded: dict[str, e.Expression] = {}
    for name, call in inside.aggregate.aggregates:
        none = e.Literal(0 if is_count(call) else None, call.type)
        column = e.Column(name, call.type, call.nullable)
        nullable = call.nullable or none.value is None
        guarded[name] = e.Case(((unknown, none),), column, call.type, nullable)
    return substitute(inside.shown, guarded)


def _of_all(
    back: Relation, inside: _Inside, halves: Halves, query: e.ScalarSubquery
) -> e.Expression:
    """The value of all groups together, as a query over what shards gave."""
    copy, names = fresh_copy(back, "#all")
    as_before = Project(
        copy, tuple((f.name, e.Column(names[f.name], f.type, f.nullable)) for f in back.schema)
    )
    merged = halves.merge(as_before)
    return replace(query, query=Project(merged, (("all", inside.shown),)))


def _replaced(
    expression: e.Expression, shown: dict[e.ScalarSubquery, e.Expression]
) -> e.Expression:
    if isinstance(expression, e.ScalarSubquery):
        return shown[expression]
    return map_parts(expression, lambda part: _replaced(part, shown))

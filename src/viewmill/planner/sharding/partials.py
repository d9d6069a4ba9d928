"""Cut an aggregate in two: what each shard keeps of a group, and how the parts are merged.

takes  an Aggregate
gives  the aggregate of a part, and a function from a scan of all parts to the whole aggregate's
       rows; None where a function's parts cannot be merged
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from viewmill.algebra import expressions as e
from viewmill.algebra.relations import Aggregate, Project, Relation
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE, Decimal, Wide
from viewmill.planner.sharding.moments import merged_moments, of_part
from viewmill.planner.sharding.placed import Names, plain_column

Calls = list[tuple[str, e.Aggregate]]


@dataclass(frozen=True)
class Halves:
    """`part` runs on shards; `merge` makes the whole rows from the parts, by the parts' names."""

    part: Aggregate
    merge: Callable[[Relation], Relation]


@dataclass
class _Call:
    """One aggregate: what is kept of it, how that is merged, and what is shown."""

    parts: Calls
    merges: Calls
    shown: e.Expression


def halve(aggregate: Aggregate, together: Names = frozenset()) -> Halves | None:
    """The two halves; equal values of the columns in `together` are on one shard."""
    if aggregate.grouping_sets is not None:
        return None
    cut: list[tuple[str, _Call]] = []
    for name, call in aggregate.aggregates:
        made = _cut(name, call, together)
        if made is None:
            return None
        cut.append((name, made))
    parts = tuple(each for _, call in cut for each in call.parts)
    part = replace(aggregate, aggregates=parts)
    keys = tuple((n, e.Column(n, each.type, each.nullable)) for n, each in aggregate.keys)

    def merge(read: Relation) -> Relation:
        calls = tuple(each for _, call in cut for each in call.merges)
        merged = Aggregate(read, keys, calls, span=aggregate.span)
        return Project(merged, (*keys, *((name, call.shown) for name, call in cut)))

    return Halves(part, merge)


def _cut(name: str, call: e.Aggregate, together: Names) -> _Call | None:
    if call.distinct and call.function not in ("min", "max"):
        column = plain_column(call.arguments[0]) if len(call.arguments) == 1 else None
        if call.function != "count" or column not in together:
            return None
    match call.function:
        case "count":
            merged = _again("sum", name, call)
            zero = e.Literal(0, BIGINT)
            total = e.Column(name, BIGINT)
            shown = e.Call("coalesce", (total, zero), BIGINT, nullable=False)
            return _Call([(name, call)], [(name, replace(merged, nullable=True))], shown)
        case "sum" | "min" | "max":
            merged = _again(call.function, name, call)
            return _Call([(name, call)], [(name, merged)], e.Column(name, call.type, call.nullable))
        case "cofactor" | "linear_regression":
            whole = merged_moments(name, call)
            return _Call(
                [(name, of_part(call))], [(name, whole)], e.Column(name, call.type, call.nullable)
            )
        case "avg" if not isinstance(call.type, Decimal | Wide):
            return _average(name, call)
        case _:
            return None


def _again(function: str, name: str, call: e.Aggregate) -> e.Aggregate:
    column = e.Column(name, call.type, call.nullable)
    return e.Aggregate(function, (column,), call.type, call.nullable)


def _average(name: str, call: e.Aggregate) -> _Call:
    """A sum and a count are kept; sums of doubles, as Spark's average of integers is one."""
    (argument,) = call.arguments
    sum_name, count_name = f"{name}.sum", f"{name}.count"
    double = e.Cast(argument, DOUBLE, argument.nullable)
    total = replace(call, function="sum", arguments=(double,))
    count = replace(call, function="count", type=BIGINT, nullable=False)
    merges = [
        (sum_name, _again("sum", sum_name, total)),
        (count_name, replace(_again("sum", count_name, count), nullable=True)),
    ]
    rows = e.Column(count_name, BIGINT)
    quotient = e.Call(
        "/", (e.Column(sum_name, DOUBLE), e.Cast(rows, DOUBLE)), DOUBLE, nullable=True
    )
    some = e.Call(">", (rows, e.Literal(0, BIGINT)), BOOLEAN, nullable=True)
    shown = e.Case(((some, quotient),), e.Literal(None, DOUBLE), DOUBLE, nullable=True)
    return _Call([(sum_name, total), (count_name, count)], merges, shown)

"""Split an aggregate in two: partial aggregates on the shards, merged in the driver.

takes  an Aggregate
gives  the partial aggregate, and a function from a scan of all partials to the aggregate's rows;
       None if the partials of a function cannot be merged
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from viewmill.algebra import expressions as e
from viewmill.algebra.float_parts import SUM_OF_PARTS, SUM_PARTS
from viewmill.algebra.relations import Aggregate, Named, Project, Relation
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE, Decimal, Float, Integer, Wide
from viewmill.algebra.walk import columns_of
from viewmill.planner.sharding.moments import merged_moments, of_part
from viewmill.planner.sharding.placed import Names, plain_column
from viewmill.rewrite.linear_aggregates import with_linear_parts

Calls = list[tuple[str, e.Aggregate]]


@dataclass(frozen=True)
class Halves:
    """`part` runs on shards; `merge` computes the rows of the aggregate from all partials."""

    part: Aggregate
    merge: Callable[[Relation], Relation]


# How partial float sums are merged: as one exact sum; each component separately and then added,
# where only plain sums are supported; or as one rounded number from each shard.
FloatMerge = OneOf["exact", "added", "rounded"]


@dataclass
class _Call:
    """One aggregate call: its partials, how they are merged, and the final expression."""

    parts: Calls
    merges: Calls
    shown: e.Expression


def halve(
    aggregate: Aggregate, together: Names = frozenset(), floats: FloatMerge = "exact"
) -> Halves | None:
    """Split an aggregate; equal values of the columns in `together` are on one shard."""
    if aggregate.grouping_sets is not None:
        return None
    linear = with_linear_parts(aggregate)
    if isinstance(linear, Project):
        assert isinstance(linear.input, Aggregate)
        return _shown(halve(linear.input, together, floats), linear.outputs)
    cut: list[tuple[str, _Call]] = []
    for name, call in aggregate.aggregates:
        made = _cut(name, call, together, floats)
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


def _shown(halves: Halves | None, outputs: tuple[Named, ...]) -> Halves | None:
    """The halves of an aggregate of which `outputs` are shown."""
    if halves is None:
        return None
    merge = halves.merge
    return Halves(halves.part, lambda read: Project(merge(read), outputs))


def _cut(name: str, call: e.Aggregate, together: Names, floats: FloatMerge) -> _Call | None:
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
        case "sum" if isinstance(call.type, Float):
            return _float_sum(name, call, floats)
        case "sum" | "min" | "max":
            merged = _again(call.function, name, call)
            return _Call([(name, call)], [(name, merged)], e.Column(name, call.type, call.nullable))
        case "cofactor" | "linear_regression":
            whole = merged_moments(name, call)
            return _Call(
                [(name, of_part(call))], [(name, whole)], e.Column(name, call.type, call.nullable)
            )
        case "avg" if not isinstance(call.type, Decimal | Wide):
            return _average(name, call, floats)
        case _:
            return None


def _again(function: str, name: str, call: e.Aggregate) -> e.Aggregate:
    column = e.Column(name, call.type, call.nullable)
    return e.Aggregate(function, (column,), call.type, call.nullable)


def _float_sum(name: str, call: e.Aggregate, floats: FloatMerge) -> _Call:
    """Shards give floats whose exact sum is that of their rows: see `float_parts`."""
    if floats == "rounded":
        merged = _again("sum", name, call)
        return _Call([(name, call)], [(name, merged)], e.Column(name, DOUBLE, call.nullable))
    names = [f"{name}.{i}" for i in range(len(SUM_PARTS))]
    parts = [(n, replace(call, function=f)) for n, f in zip(names, SUM_PARTS, strict=True)]
    columns = tuple(e.Column(each, DOUBLE, call.nullable) for each in names)
    if floats == "exact":
        whole = e.Aggregate(SUM_OF_PARTS, columns, DOUBLE, call.nullable)
        return _Call(parts, [(name, whole)], e.Column(name, DOUBLE, call.nullable))
    sums = [(each, _again("sum", each, call)) for each in names]
    first, second, third = columns
    rest = e.Call("+", (second, third), DOUBLE, call.nullable)
    return _Call(parts, sums, e.Call("+", (first, rest), DOUBLE, call.nullable))


def _average(name: str, call: e.Aggregate, floats: FloatMerge) -> _Call:
    """A sum and a count are kept."""
    total = _total(f"{name}.sum", call, floats)
    count_name = f"{name}.count"
    count = replace(call, function="count", type=BIGINT, nullable=False)
    counted = (count_name, replace(_again("sum", count_name, count), nullable=True))
    rows = e.Column(count_name, BIGINT)
    quotient = e.Call("/", (total.shown, e.Cast(rows, DOUBLE)), DOUBLE, nullable=True)
    some = e.Call(">", (rows, e.Literal(0, BIGINT)), BOOLEAN, nullable=True)
    shown = e.Case(((some, quotient),), e.Literal(None, DOUBLE), DOUBLE, nullable=True)
    return _Call([*total.parts, (count_name, count)], [*total.merges, counted], shown)


def _total(name: str, call: e.Aggregate, floats: FloatMerge) -> _Call:
    """The sum that an average divides, as a double.

    Whole numbers of one table are added as such. A product of columns of several tables is added as
    a double: a view tree knows no other function of it than a sum of products.
    """
    (argument,) = call.arguments
    tables = {column.rpartition(".")[0] for column in columns_of(argument)}
    if not isinstance(argument.type, Integer) or len(tables) > 1:
        double = e.Cast(argument, DOUBLE, argument.nullable)
        return _float_sum(name, replace(call, function="sum", arguments=(double,)), floats)
    total = replace(call, function="sum", type=BIGINT)
    if argument.type.bits < 64:
        shown = e.Cast(e.Column(name, BIGINT), DOUBLE)
        return _Call([(name, total)], [(name, _again("sum", name, total))], shown)
    return _long_sum(name, total, argument)


def _long_sum(name: str, total: e.Aggregate, argument: e.Expression) -> _Call:
    """The sum of 64-bit numbers: halves of 32 bits are added, so that no sum overflows."""
    half = e.Literal(1 << 32, BIGINT)
    low = e.Call("pmod", (argument, half), BIGINT, argument.nullable)
    rest = e.Call("-", (argument, low), BIGINT, argument.nullable)
    high = e.Call("div", (rest, half), BIGINT, argument.nullable)
    parts = [
        (f"{name}.high", replace(total, arguments=(high,))),
        (f"{name}.low", replace(total, arguments=(low,))),
    ]
    first, second = (e.Cast(e.Column(each, BIGINT), DOUBLE) for each, _ in parts)
    scaled = e.Call("*", (first, e.Literal(4294967296.0, DOUBLE)), DOUBLE)
    merges = [(each, _again("sum", each, total)) for each, _ in parts]
    return _Call(parts, merges, e.Call("+", (scaled, second), DOUBLE))

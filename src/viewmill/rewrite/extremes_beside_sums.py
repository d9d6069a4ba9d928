"""Keep MIN, MAX and DISTINCT aggregates over a join beside its sums, without listing the join.

before  Aggregate by r.k: min(r.x), sum(s.y)
        └─ Join inner: r.j = s.j
after   Aggregate by r.k: only_value(min), sum(s.y)
        └─ Join inner: r.k <=> k
           ├─ Join inner: r.j = s.j
           └─ Aggregate by k: min(x)
              └─ Aggregate by r.k, r.x
                 └─ Join inner: r.j = s.j

What does not count repeats asks only which values a group has, and these are the keys of another
group-by: sums and keys alike are kept by view trees. Arguments of one table share one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewmill.algebra.aggregates import DECLARED, linear_parts, moments_of
from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Column, Expression, Literal
from viewmill.algebra.packed import Packed
from viewmill.algebra.relations import Aggregate, Join, Named, Scan
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import columns_of, scans
from viewmill.rewrite.correlation import fresh_copy, linear
from viewmill.rewrite.rings_beside_others import ONLY_VALUE, is_sum

_Calls = list[tuple[str, AggregateCall]]


def extremes_beside_sums(group: Aggregate) -> Aggregate:
    """The group-by in this form; itself if it has no sums, nothing else, or something else yet."""
    sums = [(name, call) for name, call in group.aggregates if _is_summed(call)]
    others = [each for each in group.aggregates if each not in sums]
    counting = any(not ignores_repeats(call) for _, call in others)
    if not sums or not others or counting or group.grouping_sets is not None:
        return group
    joined = group.input
    only: dict[str, AggregateCall] = {}
    for i, calls in enumerate(_by_table(group, others)):
        beside, names = fresh_copy(_of_values(group, calls, i), f"#beside{i}")
        meets = [
            Call("<=>", (key, Column(names[name], key.type, key.nullable)), BOOLEAN, False)
            for name, key in group.keys
        ]
        joined = Join("inner" if meets else "cross", joined, beside, together(meets))
        for name, call in calls:
            value = Column(names[name], call.type, call.nullable)
            only[name] = AggregateCall(ONLY_VALUE, (value,), call.type, True)
    shown = tuple((name, only.get(name, call)) for name, call in group.aggregates)
    return replace(group, input=joined, aggregates=shown)


def ignores_repeats(call: AggregateCall) -> bool:
    """Whether an aggregate of one argument asks only which values there are."""
    if len(call.arguments) != 1 or isinstance(call.type, Packed):
        return False
    declared = DECLARED.get(call.function)
    once = declared is not None and not declared.counts_repeats
    return call.function in ("min", "max") or call.distinct or once


def _is_summed(call: AggregateCall) -> bool:
    if call.distinct or isinstance(call.type, Packed):
        return False
    return is_sum(call) or moments_of(call.function) is not None or linear_parts(call) is not None


def _by_table(group: Aggregate, calls: Sequence[tuple[str, AggregateCall]]) -> list[_Calls]:
    """The calls, those whose arguments are of one table together."""
    _, outputs, _ = linear(group.input)
    columns = dict(outputs)
    tables = scans(group.input)
    found: dict[str, _Calls] = {}
    for name, call in calls:
        read = set[str]()
        for each in columns_of(call.arguments[0]):
            read |= columns_of(columns[each]) if each in columns else {each}
        found.setdefault(_table(read, tables), []).append((name, call))
    return list(found.values())


def _table(columns: set[str], tables: Sequence[Scan]) -> str:
    return "+".join(each.alias for each in tables if columns & set(each.schema.names))


def _of_values(group: Aggregate, calls: _Calls, number: int) -> Aggregate:
    """The calls over the values that a group has, each value once."""
    values = {f"#value{number}_{i}": _value(call) for i, (_, call) in enumerate(calls)}
    inner = replace(group, keys=(*group.keys, *values.items()), aggregates=())
    keys: list[Named] = [(name, _column(name, key)) for name, key in group.keys]
    shown = tuple(
        (name, replace(call, arguments=(_column(value, values[value]),), where=None))
        for (name, call), value in zip(calls, values, strict=True)
    )
    return replace(group, input=inner, keys=tuple(keys), aggregates=shown)


def _column(name: str, value: Expression) -> Column:
    return Column(name, value.type, value.nullable)


def _value(call: AggregateCall) -> Expression:
    """The argument of a call, NULL where FILTER leaves a row out."""
    (value,) = call.arguments
    if call.where is None:
        return value
    return Case(((call.where, value),), Literal(None, value.type), value.type, True)

"""Give functions over different partitions or orders a window of their own each."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.aggregates import DECLARED
from viewmill.algebra.expressions import Column, Frame, Over, SortKey
from viewmill.algebra.relations import Project, Relation, Window
from viewmill.algebra.walk import transform

Calls = list[tuple[str, Over]]

# What they answer does not hang on the direction in which a frame is walked.
_FOLDS = (
    *("count", "sum", "avg", "min", "max"),
    *(each.name for each in DECLARED.values() if each.combine),
)
_OTHER_END = {"first_value": "last_value", "last_value": "first_value"}


def split_windows(query: Relation) -> Relation:
    """Windows whose calls stand in one order, of which some look at the first keys only.

    before  Window: rank() OVER (PARTITION BY a ORDER BY b), sum(d) OVER (PARTITION BY c)
            └─ Scan: t
    after   Window: sum(d) OVER (PARTITION BY c)
            └─ Window: rank() OVER (PARTITION BY a ORDER BY b)
               └─ Scan: t

    A frame from somewhere to the end of the partition is turned around: it then begins with the
    partition and goes on from row to row.
    """
    return transform(query, _split)


def _split(relation: Relation) -> Relation:
    if not isinstance(relation, Window):
        return relation
    groups: list[Calls] = []
    for name, call in relation.calls:
        call = turned(call)
        for group in groups:
            if _fits(call, group):
                group.append((name, call))
                break
        else:
            groups.append([(name, call)])
    if len(groups) == 1:
        return replace(relation, calls=tuple(groups[0]))
    rows = relation.input
    for group in groups:
        rows = Window(rows, tuple(group), relation.span)
    columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema)
    return Project(rows, columns)


def turned(call: Over) -> Over:
    """Reverse the order of a call whose frame reaches to the end of the partition."""
    frame = call.frame
    if frame is None or frame.end is not None or frame.start is None or not call.order:
        return call
    if call.function not in (*_FOLDS, *_OTHER_END):
        return call
    order = tuple(
        SortKey(key.expression, not key.descending, not key.nulls_first) for key in call.order
    )
    function = _OTHER_END.get(call.function, call.function)
    return replace(
        call, function=function, order=order, frame=Frame(frame.unit, None, -frame.start)
    )


def _fits(call: Over, group: Calls) -> bool:
    """Whether one order begins like the other, in the same partition."""
    for _, other in group:
        shared = min(len(call.order), len(other.order))
        if set(call.partition) != set(other.partition):
            return False
        if call.order[:shared] != other.order[:shared]:
            return False
    return True

"""Make a union of group-bys of ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Named, Project, Relation, SetOperation
from viewmill.algebra.walk import substitute, transform
from viewmill.rewrite.correlation import fresh_copy

_GROUPING = ("grouping", "grouping_id")


def grouping_sets_as_union(query: Relation) -> Relation:
    """Each set of keys is a group-by of its own, with NULL for the keys that it leaves out.

    before  Aggregate by a, b: sum(x) sets (a, b), (a)      after  Union all
            └─ Scan: t                                             ├─ Aggregate by a, b: sum(x)
                                                                   │  └─ Scan: t
                                                                   └─ Project: a, NULL AS b, sum(x)
                                                                      └─ Aggregate by a: sum(x)
                                                                         └─ Scan: t
    """
    return transform(query, _union)


def _union(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or relation.grouping_sets is None:
        return relation
    branches = [_branch(relation, each, n) for n, each in enumerate(relation.grouping_sets)]
    # Names inside a query are unique: only the first branch has those that are read above.
    result = branches[0]
    for branch in branches[1:]:
        result = SetOperation("union", True, result, branch, relation.span)
    return result


def _branch(group: Aggregate, kept: tuple[int, ...], number: int) -> Relation:
    """The group-by of one set; from the second on, over a copy of the input."""
    mark = f"#set{number}"
    rows, names = (group.input, {}) if number == 0 else fresh_copy(group.input, mark)
    inside = {
        field.name: Column(names.get(field.name, field.name), field.type, field.nullable)
        for field in group.input.schema
    }
    keys = tuple(
        (f"{name}{mark}", substitute(each, inside))
        for i, (name, each) in enumerate(group.keys)
        if i in kept
    )
    calls = tuple(
        (f"{name}{mark}", substitute(call, inside))
        for name, call in group.aggregates
        if call.function not in _GROUPING
    )
    grouped = Aggregate(rows, keys, calls, None, group.span)  # type: ignore[arg-type]
    end = "" if number == 0 else f"{mark}#shown"
    outputs: list[Named] = []
    for i, (name, key) in enumerate(group.keys):
        null = Literal(None, key.type)
        shown = Column(f"{name}{mark}", key.type, key.nullable) if i in kept else null
        outputs.append((f"{name}{end}", shown))
    for name, call in group.aggregates:
        outputs.append((f"{name}{end}", _shown(name, call, kept, mark)))
    return Project(grouped, tuple(outputs))


def _shown(name: str, call: AggregateCall, kept: tuple[int, ...], mark: str) -> Expression:
    if call.function not in _GROUPING:
        return Column(f"{name}{mark}", call.type, call.nullable)
    bits = 0
    for argument in call.arguments:
        assert isinstance(argument, Literal)
        assert isinstance(argument.value, int)
        bits = bits * 2 + (argument.value not in kept)
    return Literal(bits, call.type)

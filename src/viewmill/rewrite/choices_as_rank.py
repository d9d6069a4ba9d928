"""Say MAX_BY, MIN_BY and MODE as the first row of a group in an order."""

from __future__ import annotations

from viewmill.algebra.conditions import filtered, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Expression, Literal, Over, SortKey
from viewmill.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Window,
)
from viewmill.algebra.types import BIGINT, BOOLEAN, INT
from viewmill.algebra.walk import substitute, transform, walk_relations
from viewmill.rewrite.correlation import fresh_copy

CHOICES = ("max_by", "min_by", "mode")


def choices_as_rank(query: Relation) -> Relation:
    """What a group chooses is joined to the rest of it.

    before  Aggregate by k:         after  Join left: k <=> k#1
            │   max_by(x, y) AS m          ├─ Aggregate by k: count(*) AS n
            │   count(*) AS n              │  └─ Scan: t
            └─ Scan: t                     └─ Filter: #rank = 1
                                              └─ Window: row_number() OVER
                                                 │   (PARTITION BY k#1 ORDER BY y DESC, x DESC)
                                                 └─ Scan: t

    Of rows with the same y MAX_BY takes the largest x and MIN_BY the smallest, NULL being smaller
    than all; MODE takes the smallest of the values that are there most often, in recompute too.
    """
    return transform(query, _ranked)


def _ranked(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or relation.grouping_sets is not None:
        return relation
    chosen = [each for each in relation.aggregates if each[1].function in CHOICES]
    if not chosen or any(isinstance(e, Scan) and e.window for e in walk_relations(relation)):
        return relation
    others = [each for each in relation.aggregates if each not in chosen]
    one = ((f"{chosen[0][0]}#one", Literal(0, INT)),)
    calls = others or [(f"{chosen[0][0]}#rows", AggregateCall("count", (), BIGINT, False))]
    rows: Relation = Aggregate(relation.input, relation.keys, tuple(calls), None, relation.span)
    keys = relation.keys
    if not keys:
        rows, keys = Project(rows, (*_columns(rows), *one)), one
    for number, (name, call) in enumerate(chosen):
        first, on = _first(relation, keys, name, call, number)
        rows = Join("left", rows, first, together(on), call.span)
    by_name = {field.name: field for field in rows.schema}
    shown = [by_name[field.name] for field in relation.schema]
    return Project(rows, tuple((f.name, Column(f.name, f.type, f.nullable)) for f in shown))


def _columns(rows: Relation) -> tuple[Named, ...]:
    return tuple((f.name, Column(f.name, f.type, f.nullable)) for f in rows.schema)


def _first(
    group: Aggregate, keys: tuple[Named, ...], name: str, call: AggregateCall, number: int
) -> tuple[Relation, list[Expression]]:
    """The first row of each group, and how it meets the group."""
    mark = f"#choice{number}"
    rows, names = fresh_copy(group.input, f"{name}{mark}")
    inside = {
        f.name: Column(names.get(f.name, f.name), f.type, f.nullable) for f in group.input.schema
    }
    own: tuple[Named, ...] = tuple((f"{k}{name}{mark}", substitute(x, inside)) for k, x in keys)
    if call.where is not None:
        rows = filtered(rows, [substitute(call.where, inside)])
    arguments = [substitute(each, inside) for each in call.arguments]
    ranked, order = _choice(rows, own, name, call.function, arguments)
    partition = tuple(Column(k, x.type, x.nullable) for k, x in own)
    rank = f"{name}{mark}#rank"
    over = Over("row_number", (), partition, order, None, INT, False, span=call.span)
    numbered = Window(ranked, ((rank, over),), call.span)
    is_first = Call("=", (Column(rank, INT, False), Literal(1, INT)), BOOLEAN, False)
    shown = ranked.schema[len(own)]
    kept = (*((k.name, k) for k in partition), (name, Column(shown.name, shown.type, True)))
    on: list[Expression] = []
    for (k, x), other in zip(keys, partition, strict=True):
        both = (Column(k, x.type, x.nullable), other)
        on.append(Call("<=>" if x.nullable else "=", both, BOOLEAN, False))
    return Project(Filter(numbered, is_first), kept), on


def _choice(
    rows: Relation,
    keys: tuple[Named, ...],
    name: str,
    function: str,
    arguments: list[Expression],
) -> tuple[Relation, tuple[SortKey, ...]]:
    """Keys, what is chosen and what it is chosen by, in the order whose first row it is."""
    x, by = arguments
    value = (f"{name}#value", x)
    shown = Column(value[0], x.type, x.nullable)
    if function == "mode":
        assert isinstance(by, Literal)
        counts = Aggregate(
            filtered(rows, [_known(x)]),
            (*keys, value),
            ((f"{name}#count", AggregateCall("count", (), BIGINT, False)),),
        )
        count = Column(f"{name}#count", BIGINT, False)
        down = bool(by.value)
        return counts, (SortKey(count, True, False), SortKey(shown, down, not down))
    down = function == "max_by"
    given = Project(filtered(rows, [_known(by)]), (*keys, value, (f"{name}#by", by)))
    key = Column(f"{name}#by", by.type, by.nullable)
    return given, (SortKey(key, down, not down), SortKey(shown, down, not down))


def _known(value: Expression) -> Expression:
    unknown = Call("is_null", (value,), BOOLEAN, False)
    return Call("not", (unknown,), BOOLEAN, False)

"""Compute aggregates from the counts and sums of which they are made."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.aggregates import linear_parts
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Named, Project, Relation
from viewmill.algebra.walk import transform
from viewmill.rewrite.rules import rewrite


def linear_aggregates(query: Relation) -> Relation:
    """Aggregates that `algebra.aggregates` declares as linear, as what their parts make.

    before  Aggregate by g: bool_or(x) AS b    after  Project: g, b#2 > 0 AS b (NULL if b#1 = 0)
            └─ Scan: t                                └─ Aggregate by g: count(x) AS b#1,
                                                      │     count(CASE WHEN x THEN 1 END) AS b#2
                                                      └─ Scan: t

    Equal parts are kept once: BIT_OR and BIT_AND of a column count its bits together.
    """
    changed = transform(query, _changed)
    return query if changed == query else rewrite(changed)


def _changed(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or relation.grouping_sets is not None:
        return relation
    return with_linear_parts(relation)


def with_linear_parts(relation: Aggregate) -> Aggregate | Project:
    """An aggregate of counts and sums under what they make, or as it is if it has no such call."""
    names: dict[AggregateCall, str] = {}
    outputs: list[Named] = [
        (name, Column(name, key.type, key.nullable)) for name, key in relation.keys
    ]
    for name, call in relation.aggregates:
        found = linear_parts(call)
        if found is None:
            names.setdefault(call, name)
            outputs.append((name, _column(names, call)))
            continue
        for part in found.parts:
            names.setdefault(part, f"{name}#{len(names)}")
        outputs.append((name, found.finish([_column(names, each) for each in found.parts])))
    if all(linear_parts(call) is None for _, call in relation.aggregates):
        return relation
    calls = tuple((name, call) for call, name in names.items())
    return Project(replace(relation, aggregates=calls), tuple(outputs))


def _column(names: dict[AggregateCall, str], call: AggregateCall) -> Column:
    return Column(names[call], call.type, call.nullable)

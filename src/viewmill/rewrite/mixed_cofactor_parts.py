"""cofactor() with categories is kept as group-bys: one by each category and by each pair of them.

takes  a group-by with one such call
gives  the group-bys whose rows it is put together from

before  Aggregate by k: cofactor(x, colour, size)
after   Aggregate by k: cofactor(x)
        Aggregate by k, colour: cofactor(x)      Aggregate by k, size: cofactor(x)
        Aggregate by k, colour, size: count(*)

There are as many rows as pairs of values occur, never as many as combinations of all categories.
Over a join each part is a view tree of its own, in which the categories are free variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.complete_rows import complete
from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.mixed_moments import FUNCTION, MixedMoments
from viewmill.algebra.packed import cofactor_type
from viewmill.algebra.relations import Aggregate, Named, Project, Relation
from viewmill.algebra.types import BIGINT, DOUBLE


@dataclass(frozen=True)
class MixedParts:
    """The group-bys of one call: the first one has the other aggregates of the query beside it."""

    whole: Relation
    by_category: tuple[Relation, ...]
    by_pair: tuple[Relation, ...]


@dataclass(frozen=True)
class MixedGroup:
    """A group-by with one cofactor() over categories, and which of its columns are shown."""

    group: Aggregate
    at: int  # of the aggregates
    outputs: tuple[int, ...]

    @property
    def call(self) -> AggregateCall:
        """The cofactor."""
        return self.group.aggregates[self.at][1]

    @property
    def place(self) -> int:
        """The column of the cofactor in the group-by."""
        return len(self.group.keys) + self.at


def mixed_group(query: Relation) -> MixedGroup | None:
    """The query as a group-by with one such call, perhaps under a choice of its columns."""
    group = query
    if isinstance(query, Project) and all(isinstance(e, Column) for _, e in query.outputs):
        group = query.input
    if not isinstance(group, Aggregate) or group.grouping_sets is not None:
        return None
    found = [i for i, (_, each) in enumerate(group.aggregates) if each.function == FUNCTION]
    if len(found) != 1:
        return None
    names = group.schema.names
    shown = tuple(range(len(names)))
    if isinstance(query, Project):
        shown = tuple(names.index(e.name) for _, e in query.outputs if isinstance(e, Column))
    return MixedGroup(group, found[0], shown)


def mixed_parts(mixed: MixedGroup) -> MixedParts:
    """The parts of the call."""
    group, call = mixed.group, mixed.call
    assert isinstance(call.type, MixedMoments)
    numbers = tuple(each for each in call.arguments if each.type == DOUBLE)
    categories = [each for each in call.arguments if each.type != DOUBLE]
    counted = complete(call)
    calls = list(group.aggregates)
    calls[mixed.at] = (group.aggregates[mixed.at][0], _moments(call, numbers, counted))
    rows = filtered(group.input, conjuncts(counted))
    moments, count = _moments(call, numbers, None), _moments(call, (), None)

    def by(chosen: list[int], shown: AggregateCall) -> Relation:
        keys: list[Named] = [(f"#category{i + 1}", categories[i]) for i in chosen]
        return Aggregate(rows, (*group.keys, *keys), (("#moments", shown),), None, group.span)

    return MixedParts(
        replace(group, aggregates=tuple(calls)),
        tuple(by([i], moments) for i in range(len(categories))),
        tuple(by([i, j], count) for i, j in call.type.pairs),
    )


def _moments(
    call: AggregateCall, numbers: tuple[Expression, ...], where: Expression | None
) -> AggregateCall:
    """Count, sums and products of some numbers; the count alone if there are none."""
    assert isinstance(call.type, MixedMoments)
    if not numbers:
        return AggregateCall("count", (), BIGINT, False, where=where, span=call.span)
    type_ = cofactor_type(call.type.numbers)
    return AggregateCall("cofactor", numbers, type_, False, where=where, span=call.span)

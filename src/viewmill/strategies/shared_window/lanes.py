"""Which views of a stream become one lane, though their WHERE or GROUP BY differ.

takes  what rows become for each kind of view (`LaneParts`), how often those answer, some rows
gives  `LanePlan`: kinds of views that share partials, and how each reads them

The rows of a joined lane are cut by all keys of its views and by which of their predicates hold: a
fragment for each combination. A view puts its groups together from those fragments in which its
predicate holds, whatever the keys are that it does not have. That saves a pass over the rows for
every lane less, and costs the fragments beyond the groups of the view at each of its answers:

apart   C = m λ
joined  C = λ + Σ (F - G_i) / pause_i
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Call, Case, Column, Expression, Literal
from viewmill.algebra.relations import Project
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.codegen.scan_program import emit_program
from viewmill.deltas.delta import Delta
from viewmill.program.program import Program
from viewmill.program.windows import (
    ARRIVAL,
    FRAGMENT,
    TIME,
    JoinedLane,
    LaneParts,
    LanePlan,
    LaneReading,
    LaneSpec,
    LaneUse,
)
from viewmill.strategies.shared_window.rates import pause, rows_per_unit

Array = npt.NDArray[Any]
Measured = Mapping[frozenset[int], int]  # fragments that a lane has, by its kinds of views

_SAMPLE = 10_000  # rows
_MOST_PREDICATES = 62  # of a lane: bits of a word
_MOST_COLUMNS = 56  # keys and arguments


def plan_lanes(
    uses: Sequence[LaneUse], rows: Delta, rate: float | None, measured: Measured
) -> list[LanePlan]:
    """The cheapest of: all as one lane, one for each set of keys, all apart."""
    passing = rows_per_unit(uses[0].parts.scan.window, rate)
    sample = rows.take(np.arange(max(0, rows.size - _SAMPLE), rows.size))
    everything = list(range(len(uses)))
    options = [
        _chunks(uses, [everything]),
        _chunks(uses, _by_keys(uses)),
        [[i] for i in everything],
    ]
    found = []
    for option in options:
        costs = [_cost(uses, part, sample, passing, measured) for part in option]
        found.append((sum(costs) / passing, option))
    option = min(found, key=lambda each: each[0])[1]
    words = ", ".join(
        f"{name} {cost:,.4g}"
        for name, (cost, _) in zip(("joined", "by keys", "apart"), found, strict=True)
    )
    why = f"lanes: {words} operations/row; C = λ + Σ (F - G) / pause for a joined one"
    return [
        LanePlan(tuple(part), join_lanes([uses[i].parts for i in part]), why) for part in option
    ]


def _chunks(uses: Sequence[LaneUse], sets: list[list[int]]) -> list[list[int]]:
    """Sets of no more predicates than a word has bits, and no more columns than a program can."""
    found = []
    for each in sets:
        part: list[int] = []
        for i in each:
            own = [uses[j].parts for j in (*part, i)]
            columns = {column for e in own for column in (*e.keys, *e.arguments)}
            if len({e.where for e in own}) > _MOST_PREDICATES or len(columns) > _MOST_COLUMNS:
                found.append(part)
                part = []
            part.append(i)
        found.append(part)
    return [part for part in found if part]


def _by_keys(uses: Sequence[LaneUse]) -> list[list[int]]:
    found: dict[frozenset[Expression], list[int]] = {}
    for i, each in enumerate(uses):
        found.setdefault(frozenset(each.parts.keys), []).append(i)
    return list(found.values())


def _cost(
    uses: Sequence[LaneUse], part: list[int], sample: Delta, passing: float, measured: Measured
) -> float:
    """Operations per unit."""
    if len(part) == 1:
        return passing
    keys = {key for i in part for key in uses[i].parts.keys}
    predicates = {uses[i].parts.where for i in part} - {()}
    fragments = measured.get(frozenset(part))
    if fragments is None:
        fragments = _groups(sample, keys) * (len(predicates) + 1)
    more = (
        _answers(uses[i], passing) * max(0, fragments - _groups(sample, uses[i].parts.keys))
        for i in part
    )
    return passing + sum(more)


def _answers(use: LaneUse, passing: float) -> float:
    """Answers per unit."""
    each = zip(use.windows, use.followed, strict=True)
    return sum(1 / pause(window, followed, passing) for window, followed in each)


def _groups(sample: Delta, keys: Any) -> int:
    """How many groups some rows have."""
    names = [name.lower() for name in sample.schema.names]
    at = [names.index(key.name.partition(".")[2].lower()) for key in keys]
    if not at or not sample.size:
        return 1
    columns = [sample.columns[i] for i in at]
    masks = [mask for i in at if (mask := sample.nulls[i]) is not None]
    whole = np.stack([np.unique(each, return_inverse=True)[1] for each in (*columns, *masks)])
    return len(np.unique(whole, axis=1).T)


def join_lanes(parts: Sequence[LaneParts]) -> JoinedLane | None:
    """One lane for all of these views; None if there is only one."""
    if len(parts) == 1:
        return None
    keys = list(dict.fromkeys(key for each in parts for key in each.keys))
    arguments = list(dict.fromkeys(a for each in parts for a in each.arguments))
    predicates = list(dict.fromkeys(each.where for each in parts if each.where))
    readings = tuple(
        LaneReading(
            tuple(keys.index(key) for key in each.keys),
            predicates.index(each.where) if each.where else None,
            tuple(arguments.index(a) for a in each.arguments),
        )
        for each in parts
    )
    fields = tuple(Field(f"_key{i}", key.type, key.nullable) for i, key in enumerate(keys))
    is_all = any(not each.where for each in parts)
    if not predicates and all(isinstance(each, Column) for each in arguments):
        names = parts[0].scan.schema.names
        picked = tuple(names.index(e.name) for e in (*keys, *arguments) if isinstance(e, Column))
        return JoinedLane(LaneSpec(fields, None, picked), readings)
    program = _program(parts[0], keys, arguments, predicates)
    return JoinedLane(LaneSpec(fields, program, (), len(predicates), is_all), readings)


def _program(
    parts: LaneParts,
    keys: Sequence[Expression],
    arguments: Sequence[Expression],
    predicates: Sequence[tuple[Expression, ...]],
) -> Program:
    """All rows with their keys, arguments, and which predicates hold."""
    scan = parts.scan
    number = Field(f"{scan.alias}.{ARRIVAL}", BIGINT, False)
    wider = replace(scan, schema=Schema((*scan.schema.fields, number)), window=None)
    arrival = Column(number.name, BIGINT, False)
    outputs = (
        (ARRIVAL, arrival),
        (TIME, arrival),
        *((f"_key{i}", each) for i, each in enumerate(keys)),
        *((f"_argument{i}", each) for i, each in enumerate(arguments)),
        *(((FRAGMENT, _fragment(predicates)),) if predicates else ()),
    )
    return emit_program(Project(wider, outputs), "shared_window", passing=True)


def _fragment(predicates: Sequence[tuple[Expression, ...]]) -> Expression:
    """Which predicates hold, as a number: a bit for each; what is not known does not hold."""
    none = Literal(0, BIGINT)
    bits: list[Expression] = [
        Case(((chain("and", each), Literal(1 << i, BIGINT)),), none, BIGINT, False)
        for i, each in enumerate(predicates)
    ]
    return reduce(lambda one, other: Call("+", (one, other), BIGINT, False), bits)

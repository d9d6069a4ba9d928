"""Sliding windows on a stream: SELECT ... FROM s [WINDOW ...] WHERE ... GROUP BY ... HAVING ...

takes  a relation whose one scan has a window
gives  a candidate, or the part in the way; a program whose body is `Windowed`
next   kernels.window_build
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Named, Project, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, Decimal, Float, Integer, String, Timestamp
from viewmill.algebra.walk import scans
from viewmill.algebra.windows import SlidingWindow
from viewmill.program.program import Program
from viewmill.program.windows import ARRIVAL, TIME, WindowAggregate, Windowed
from viewmill.strategies.dataflow.compose import compose
from viewmill.strategies.dataflow.linear import filtered
from viewmill.strategies.dataflow.shape import NotTaken, Shape, shape_of
from viewmill.strategies.inputs import input_of
from viewmill.strategies.shared_window.queries import WindowQuery, partial_count
from viewmill.strategies.strategy import Candidate, Cost, Rejection, Statistics

FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop",
    "max_by", "min_by", "first", "last", "any_value",
)  # fmt: skip

# Measured: a row into its pane, and a slide with its three combinations of panes.
_ROW_US = 0.4
_REFRESH_US = 300.0


class SharedWindow:
    """Rows go into panes once; a window is put together from panes by TwoStacks."""

    name = "shared_window"

    def match(self, query: Relation, statistics: Statistics) -> Candidate | Rejection:
        """Offer what is one scan with a window, grouped."""
        try:
            found = windowed(query)
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        window = found.window
        partials = partial_count("pairs", WindowQuery(window.size, window.slide))
        notes = (
            f"{window}: {partials} partials per window by Pairs",
            "final aggregation by TwoStacks: any operation, 3 combinations per slide; rows that "
            "leave are never subtracted, so floats do not drift",
        )
        cost = Cost(_REFRESH_US, _ROW_US, 64 * statistics.row_count(found.scan.source))
        return Candidate(self.name, query, cost, notes)

    def emit(self, candidate: Candidate, view: str) -> Program:
        """Two programs without state around the window: what rows become, what answers become."""
        query = candidate.query
        found = windowed(query)
        body = Windowed(
            found.window,
            tuple(Field(name, each.type, each.nullable) for name, each in found.keys),
            found.aggregates,
            "twostacks",
            found.prepare,
            found.finish,
        )
        return Program(
            strategy=self.name,
            query=query,
            inputs=(input_of(found.scan),),
            output=query.schema,
            states=(),
            body=body,
        )


@dataclass(frozen=True)
class WindowShape:
    """A window, how its rows are grouped, and the programs around it."""

    scan: Scan
    keys: tuple[Named, ...]
    aggregates: tuple[WindowAggregate, ...]
    prepare: Program
    finish: Program
    shape: Shape

    @property
    def window(self) -> SlidingWindow:
        """The window."""
        assert self.scan.window is not None
        return self.scan.window


def windowed(query: Relation) -> WindowShape:
    """A grouped query over one window, or `NotTaken` with what is in the way."""
    read = scans(query)
    if not any(scan.window for scan in read):
        raise NotTaken("there is no window on a table")
    if len(read) > 1:
        raise NotTaken("a window is joined with something", read[-1].span)
    shape = shape_of(query)
    if shape.keys is None:
        raise NotTaken("the rows of a window are not aggregated", shape.scan.span)
    arguments, aggregates = _aggregates(shape)
    return WindowShape(
        shape.scan,
        shape.keys,
        aggregates,
        _prepare(shape, shape.keys, arguments),
        _finish(shape, shape.keys),
        shape,
    )


def _aggregates(shape: Shape) -> tuple[list[Expression], tuple[WindowAggregate, ...]]:
    """What the aggregates read, each expression once, and the aggregates over those."""
    read: list[Expression] = []
    found = []
    for _, call in shape.aggregates:
        _check(call)
        for each in call.arguments:
            if each not in read:
                read.append(each)
        positions = tuple(read.index(each) for each in call.arguments)
        first = call.arguments[0].type if call.arguments else None
        found.append(WindowAggregate(call.function, positions, first, call.type))
    return read, tuple(found)


def _check(call: AggregateCall) -> None:
    name = call.function
    if name not in FUNCTIONS:
        raise NotTaken(f"{name} is not aggregated over panes", call.span)
    if call.distinct:
        raise NotTaken(f"{name}(DISTINCT) is not aggregated over panes", call.span)
    if call.where is not None:
        raise NotTaken("FILTER is not aggregated over panes", call.span)
    ordered = {"min": 0, "max": 0, "max_by": 1, "min_by": 1}
    if name in ordered:
        type_ = call.arguments[ordered[name]].type
        if isinstance(type_, String) or not isinstance(
            type_, Integer | Float | Decimal | Timestamp
        ):
            raise NotTaken(f"{name} over {type_} is not aggregated over panes", call.span)


def _prepare(shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]) -> Program:
    scan = shape.scan
    assert scan.window is not None
    alias = scan.alias
    number = Field(f"{alias}.{ARRIVAL}", BIGINT, False)
    wider = replace(scan, schema=Schema((*scan.schema.fields, number)), window=None)
    arrival = Column(number.name, BIGINT, False)
    time: Expression = arrival
    if scan.window.unit == "time":
        at = scan.schema.names.index(f"{alias}.{scan.window.column}")
        field = scan.schema[at]
        time = Column(field.name, field.type, field.nullable)
    outputs = (
        (ARRIVAL, arrival),
        (TIME, time),
        *((f"_key{i}", each) for i, (_, each) in enumerate(keys)),
        *((f"_argument{i}", each) for i, each in enumerate(arguments)),
    )
    return compose(Project(filtered(wider, shape.where), outputs), SharedWindow.name, passing=False)


def _finish(shape: Shape, keys: tuple[Named, ...]) -> Program:
    fields = (
        Field(ARRIVAL, BIGINT, False),
        *(Field(name, each.type, each.nullable) for name, each in keys),
        *(Field(name, call.type, call.nullable) for name, call in shape.aggregates),
    )
    answers = Scan("answers", "answers", Schema(fields))
    outputs = ((ARRIVAL, Column(ARRIVAL, BIGINT, False)), *shape.outputs)
    return compose(
        Project(filtered(answers, shape.having), outputs), SharedWindow.name, passing=False
    )

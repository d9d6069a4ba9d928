"""A grouped query over one window: what is read of its rows, and the programs around the window.

takes  a relation whose one scan has a window
gives  `WindowShape`, or `NotTaken` with what is in the way
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Case, Column, Expression, Literal
from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.packed import Packed
from viewmill.algebra.relations import Named, Project, Relation, Scan
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Type,
    may_be_wide,
)
from viewmill.algebra.walk import scans
from viewmill.algebra.windows import SlidingWindow
from viewmill.codegen.scan_program import emit_program
from viewmill.codegen.shape import NotTaken, Shape, shape_of
from viewmill.program.program import Program
from viewmill.program.windows import ARRIVAL, TIME, WindowAggregate

_STRATEGY = "shared_window"  # whose programs they are, wherever the window is maintained
_FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop",
    "max_by", "min_by", "first", "last", "any_value",
)  # fmt: skip
_BY_PLACE = ("first", "last", "any_value")  # a NULL is a value to them


@dataclass(frozen=True)
class WindowShape:
    """A window, how its rows are grouped, and the programs around it."""

    shape: Shape
    keys: tuple[Named, ...]
    arguments: list[Expression]
    aggregates: tuple[WindowAggregate, ...]
    all_keys: tuple[Named, ...]  # with the start and the end of GROUP BY window
    every: tuple[int, int] | None = None  # where those two are

    def check(self) -> None:
        """`NotTaken` where something that is computed cannot be compiled."""
        if picked_columns(self.shape, self.keys, self.arguments) is None:
            _ = self.prepare
        if shown_positions(self.shape, self.all_keys) is None:
            _ = self.finish

    @property
    def prepare(self) -> Program:
        """The program that turns rows into keys and arguments."""
        return _prepare(self.shape, self.keys, self.arguments)

    @property
    def finish(self) -> Program:
        """The program that turns answers into output rows."""
        return _finish(self.shape, self.all_keys)

    @property
    def scan(self) -> Scan:
        """What is read."""
        return self.shape.scan

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
    shape = without_filters(shape_of(query))
    if shape.keys is None:
        raise NotTaken("the rows of a window are not aggregated", shape.scan.span)
    arguments, aggregates = window_aggregates(shape)
    return WindowShape(shape, shape.keys, arguments, aggregates, shape.keys)


def picked_columns(
    shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]
) -> tuple[int, ...] | None:
    """The scan's columns that keys and arguments are, if they are just that."""
    read = [*(each for _, each in keys), *arguments]
    if shape.where or not all(isinstance(each, Column) for each in read):
        return None
    names = shape.scan.schema.names
    return tuple(names.index(each.name) for each in read if isinstance(each, Column))


def shown_positions(shape: Shape, keys: tuple[Named, ...]) -> tuple[int, ...] | None:
    """Which of keys and aggregates the outputs are, if they are just that."""
    names = [*(name for name, _ in keys), *(name for name, _ in shape.aggregates)]
    outputs = [each for _, each in shape.outputs]
    if shape.having or not all(isinstance(each, Column) for each in outputs):
        return None
    return tuple(names.index(each.name) for each in outputs if isinstance(each, Column))


def window_aggregates(shape: Shape) -> tuple[list[Expression], tuple[WindowAggregate, ...]]:
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
        own = operation_of(call)
        by_text = isinstance(_ordered_by(call), String)
        found.append(WindowAggregate(call.function, positions, first, call.type, own, by_text))
    return read, tuple(found)


def _check(call: AggregateCall) -> None:
    name = call.function
    if name not in _FUNCTIONS and operation_of(call) is None:
        raise NotTaken(f"{name} is not aggregated over panes", call.span)
    if call.distinct:
        raise NotTaken(f"{name}(DISTINCT) is not aggregated over panes", call.span)
    if name in ("sum", "avg") and may_be_wide(call.arguments[0].type):
        raise NotTaken(f"{name} of more than 18 digits is not aggregated over panes", call.span)
    order = _ordered_by(call)
    if order is not None and not isinstance(order, Integer | Float | Decimal | Timestamp | String):
        raise NotTaken(f"{name} over {order} is not aggregated over panes", call.span)


def without_filters(shape: Shape) -> Shape:
    """Rows that FILTER leaves out, as rows with a NULL: aggregates pass over both."""
    calls = tuple((name, _without_filter(call)) for name, call in shape.aggregates)
    return replace(shape, aggregates=calls)


def _without_filter(call: AggregateCall) -> AggregateCall:
    if call.where is None:
        return call
    if call.function in _BY_PLACE or call.function not in _FUNCTIONS:
        raise NotTaken(f"{call.function} with FILTER is not aggregated over panes", call.span)
    value = call.arguments[-1] if call.arguments else Literal(1, BIGINT)
    kept = Case(((call.where, value),), Literal(None, value.type), value.type, nullable=True)
    return replace(call, arguments=(*call.arguments[:-1], kept), where=None)


def _ordered_by(call: AggregateCall) -> Type | None:
    """The expressions that are compared."""
    place = {"min": 0, "max": 0, "max_by": 1, "min_by": 1}.get(call.function)
    return None if place is None else call.arguments[place].type


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
    return emit_program(Project(filtered(wider, shape.where), outputs), _STRATEGY, passing=True)


def _finish(shape: Shape, keys: tuple[Named, ...]) -> Program:
    fields = (
        Field(ARRIVAL, BIGINT, False),
        *(Field(name, each.type, each.nullable) for name, each in keys),
        *(Field(name, call.type, call.nullable) for name, call in shape.aggregates),
    )
    answers = Scan("answers", "answers", Schema(fields))
    outputs = ((ARRIVAL, Column(ARRIVAL, BIGINT, False)), *shape.outputs)
    return emit_program(Project(filtered(answers, shape.having), outputs), _STRATEGY, passing=True)


def operation_of(call: AggregateCall) -> OperationCall | None:
    """The operation of a user, if that is what is called."""
    shape = call.type.shape if isinstance(call.type, Packed) else None
    return shape if isinstance(shape, OperationCall) else None

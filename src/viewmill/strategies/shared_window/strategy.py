"""Sliding windows on a stream: SELECT ... FROM s [WINDOW ...] WHERE ... GROUP BY ... HAVING ...

takes  a relation whose one scan has a window
gives  a candidate, or the part in the way; a program whose body is `Windowed`
next   kernels.window_family
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.hints import Hints
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
from viewmill.algebra.walk import scans, substitute
from viewmill.algebra.windows import SlidingWindow
from viewmill.program.program import Program
from viewmill.program.windows import ARRIVAL, TIME, Asked, LaneParts, WindowAggregate, Windowed
from viewmill.strategies.dataflow.compose import compose
from viewmill.strategies.dataflow.shape import NotTaken, Shape, shape_of
from viewmill.strategies.inputs import input_of
from viewmill.strategies.shared_window.every_window import every_window
from viewmill.strategies.shared_window.queries import PARTIALS
from viewmill.strategies.shared_window.techniques import check_technique, offered, operation_of
from viewmill.strategies.strategy import Candidate, Cost, Rejection, Statistics

FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop",
    "max_by", "min_by", "first", "last", "any_value",
)  # fmt: skip

# Measured: a row into its pane, and what a batch costs however small it is.
_ROW_US = 0.3
_REFRESH_US = 150.0
# What is shown of these cannot fail, whatever the answers are.
_SAFE = ("=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "is_null")


class SharedWindow:
    """Rows go into panes once for all views of a stream; a window is put together from panes."""

    name = "shared_window"

    def __init__(self, hints: Hints | None = None) -> None:
        self._hints = hints or Hints()

    def match(self, query: Relation, statistics: Statistics) -> Candidate | Rejection:
        """Offer what is one scan with a window, grouped."""
        try:
            found = _found(query)
            found.check()
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        window = found.window
        technique = self._hints.technique
        if technique is not None:
            calls = [call for _, call in found.shape.aggregates]
            every = found.every is not None
            check_technique(technique, calls, self._hints.technique_span, every=every)
        counts = {name: f"{_partials(name, window):,}" for name in PARTIALS}
        notes = (
            f"{window}: {counts['pairs']} partials per window by Pairs "
            f"(Panes {counts['panes']}, Cutty {counts['cutty']})",
            *((f"TECHNIQUE({technique}) was asked for",) if technique else ()),
            *(("LATENCY(worst) was asked for",) if self._hints.worst else ()),
        )
        cost = Cost(_REFRESH_US, _ROW_US, 64 * statistics.row_count(found.scan.source))
        return Candidate(self.name, query, cost, notes, way=_way(self._hints))

    def emit(self, candidate: Candidate, view: str) -> Program:
        """Two programs without state around the window: what rows become, what answers become."""
        query = candidate.query
        found = _found(query)
        shape, keys = found.shape, found.keys
        picked = _picked(shape, keys, found.arguments)
        shown = _shown(shape, found.all_keys)
        body = Windowed(
            found.window,
            tuple(Field(name, each.type, each.nullable) for name, each in keys),
            found.aggregates,
            replace(_asked(candidate.way), every=found.every is not None),
            _lane(shape, keys, found.arguments),
            None if picked is not None else found.prepare,
            picked or (),
            None if shown is not None else found.finish,
            shown or (),
            _is_safe(shape),
            found.every,
            None if found.every is not None else _parts(shape, keys, found.arguments),
        )
        return Program(
            strategy=self.name,
            query=query,
            inputs=(input_of(found.scan),),
            output=query.schema,
            states=(),
            body=body,
        )


def _way(hints: Hints) -> str:
    return (hints.technique or "") + ("/worst" if hints.worst else "")


def _asked(way: str) -> Asked:
    technique, _, worst = way.partition("/")
    return Asked(technique or None, bool(worst))


def _partials(technique: str, window: SlidingWindow) -> int:
    """Partials per window, Table 1 of the paper."""
    size, slide = window.size, window.slide
    if technique == "panes":
        return size // gcd(size, slide)
    if technique == "cutty" or size % slide == 0:
        return -(-size // slide)
    return 2 * (size // slide) + 1


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
        if _picked(self.shape, self.keys, self.arguments) is None:
            _ = self.prepare
        if _shown(self.shape, self.all_keys) is None:
            _ = self.finish

    @property
    def prepare(self) -> Program:
        """What rows become."""
        return _prepare(self.shape, self.keys, self.arguments)

    @property
    def finish(self) -> Program:
        """What answers become."""
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


def _found(query: Relation) -> WindowShape:
    """A query over one window, or by every window, or `NotTaken` with what is in the way."""
    if any(scan.window for scan in scans(query)):
        return windowed(query)
    every = every_window(query)
    assert every.shape.keys is not None
    arguments, aggregates = _aggregates(every.shape)
    places = every.start, every.end
    return WindowShape(every.shape, every.shape.keys, arguments, aggregates, every.keys, places)


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
    return WindowShape(shape, shape.keys, arguments, aggregates, shape.keys)


def _picked(
    shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]
) -> tuple[int, ...] | None:
    """The scan's columns that keys and arguments are, if they are just that."""
    read = [*(each for _, each in keys), *arguments]
    if shape.where or not all(isinstance(each, Column) for each in read):
        return None
    names = shape.scan.schema.names
    return tuple(names.index(each.name) for each in read if isinstance(each, Column))


def _shown(shape: Shape, keys: tuple[Named, ...]) -> tuple[int, ...] | None:
    """Which of keys and aggregates the outputs are, if they are just that."""
    names = [*(name for name, _ in keys), *(name for name, _ in shape.aggregates)]
    outputs = [each for _, each in shape.outputs]
    if shape.having or not all(isinstance(each, Column) for each in outputs):
        return None
    return tuple(names.index(each.name) for each in outputs if isinstance(each, Column))


def _lane(shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]) -> str:
    """Equal for queries that prepare rows alike, whatever they call the table, and have as many
    techniques to choose from: a sum does not lose its inverse because another asks for MAX."""
    read = _renamed(shape.scan)
    parts = [*shape.where, None, *(each for _, each in keys), None, *arguments]
    kind = offered([call for _, call in shape.aggregates])
    return repr([kind, *(each and substitute(each, read) for each in parts)])


def _renamed(scan: Scan) -> dict[str, Expression]:
    """The scan's columns under a name that does not depend on the alias."""
    return {
        field.name: Column(f"row.{field.name.partition('.')[2]}", field.type, field.nullable)
        for field in scan.schema
    }


def _parts(shape: Shape, keys: tuple[Named, ...], arguments: list[Expression]) -> LaneParts | None:
    """What rows become, if that can be computed for rows that the view does not take."""
    calls = [call for _, call in shape.aggregates]
    operations = [each for each in map(operation_of, calls) if each is not None]
    plain = all(isinstance(each, Column) for _, each in keys)
    if not plain or not all(map(_cannot_fail, arguments)):
        return None
    if not all(each.commutes for each in operations):
        return None
    read = _renamed(shape.scan)
    fields = tuple(
        replace(field, name=f"row.{field.name.partition('.')[2]}") for field in shape.scan.schema
    )
    return LaneParts(
        replace(shape.scan, alias="row", schema=Schema(fields)),
        tuple(substitute(each, read) for each in shape.where),
        tuple(substitute(each, read) for _, each in keys),  # type: ignore[misc]  # columns
        tuple(substitute(each, read) for each in arguments),
        offered(calls),
    )


def _is_safe(shape: Shape) -> bool:
    """Whether answers can be shown whatever they are: then nobody needs to look at all of them."""
    shown = [*shape.having, *(each for _, each in shape.outputs)]
    return all(_cannot_fail(each) for each in shown)


def _cannot_fail(expression: Expression) -> bool:
    if isinstance(expression, Call):
        known = expression.function in _SAFE
        return known and all(_cannot_fail(each) for each in expression.arguments)
    return isinstance(expression, Column | Literal)


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
        own = operation_of(call)
        by_text = isinstance(_ordered_by(call), String)
        found.append(WindowAggregate(call.function, positions, first, call.type, own, by_text))
    return read, tuple(found)


def _check(call: AggregateCall) -> None:
    name = call.function
    if name not in FUNCTIONS and operation_of(call) is None:
        raise NotTaken(f"{name} is not aggregated over panes", call.span)
    if call.distinct:
        raise NotTaken(f"{name}(DISTINCT) is not aggregated over panes", call.span)
    if call.where is not None:
        raise NotTaken("FILTER is not aggregated over panes", call.span)
    if name in ("sum", "avg") and may_be_wide(call.arguments[0].type):
        raise NotTaken(f"{name} of more than 18 digits is not aggregated over panes", call.span)
    order = _ordered_by(call)
    if order is not None and not isinstance(order, Integer | Float | Decimal | Timestamp | String):
        raise NotTaken(f"{name} over {order} is not aggregated over panes", call.span)


def _ordered_by(call: AggregateCall) -> Type | None:
    """What is compared."""
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
    return compose(Project(filtered(wider, shape.where), outputs), SharedWindow.name, passing=True)


def _finish(shape: Shape, keys: tuple[Named, ...]) -> Program:
    fields = (
        Field(ARRIVAL, BIGINT, False),
        *(Field(name, each.type, each.nullable) for name, each in keys),
        *(Field(name, call.type, call.nullable) for name, call in shape.aggregates),
    )
    answers = Scan("answers", "answers", Schema(fields))
    outputs = ((ARRIVAL, Column(ARRIVAL, BIGINT, False)), *shape.outputs)
    return compose(
        Project(filtered(answers, shape.having), outputs), SharedWindow.name, passing=True
    )

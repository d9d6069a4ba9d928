"""Lower OVER clauses.

takes  exp.Window, the lowering of the expressions inside
gives  algebra Over; its ties are broken later, by `break_ties`, when the input's columns are known
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from sqlglot import exp

from viewmill.algebra.expressions import (
    Aggregate,
    Column,
    Expression,
    Frame,
    Literal,
    Over,
    SortKey,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import INT, Date, Integer, Interval, Nested, Timestamp
from viewmill.algebra.window_functions import WINDOW_FUNCTIONS
from viewmill.errors import Span, TypeMismatch, UnknownName, nearest
from viewmill.sql import aggregates, operators
from viewmill.sql.engine_calls import engine_call, is_engine_aggregate, refuse_unknown
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.read_functions import read_function

if TYPE_CHECKING:
    from viewmill.sql.lower_expressions import ExpressionLowering


def lower_window(lowering: ExpressionLowering, node: exp.Window) -> Expression:
    """The call with its partition, order and frame."""
    span = lowering.span(node)
    function, ignore_nulls = node.this, False
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls = isinstance(function, exp.IgnoreNulls)
        function = function.this
    where = None
    if isinstance(function, exp.Filter):
        where = lowering.condition(function.expression.this, "FILTER")
        function = function.this
    refuse_unknown(function, lowering.environment)
    name, nodes = read_function(function)
    if any(isinstance(each, exp.Distinct) for each in nodes):
        raise TypeMismatch(
            "DISTINCT cannot be used over a window",
            hint="Count in a query of its own with GROUP BY, and join with it.",
            span=span,
        )
    if not (aggregates.is_aggregate(name) or aggregates.is_window_function(name)):
        if where is not None or not is_engine_aggregate(function):
            raise NotModelled(f"the function {name} over a window", span)
        return _over_engine(lowering, node, function, ignore_nulls)
    aggregates.require_arguments(name, nodes, span)
    if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        nodes = []
    arguments = lowering.all(nodes)
    if where is not None:
        arguments = _filtered(name, arguments, where)
    partition_nodes, order_nodes, spec = _definition(lowering, node)
    partition = lowering.all(partition_nodes)
    order = tuple(lowering.sort_key(each) for each in order_nodes)
    frame = None if spec is None else _frame(lowering, spec, order, span)
    own = WINDOW_FUNCTIONS.get(name)
    if frame is not None and own is not None and not own.takes_frame:
        if frame != own.frame:
            raise TypeMismatch(f"{name} has a frame of its own: leave out yours", span=span)
        frame = None
    return aggregates.over(
        name, arguments, partition, order, frame, ignore_nulls=ignore_nulls, span=span
    )


def _over_engine(
    lowering: ExpressionLowering, node: exp.Window, function: exp.Expr, ignore_nulls: bool
) -> Over:
    """An aggregate that only the engine computes, over a window."""
    span = lowering.span(node)
    reason = NotModelled(f"the function {read_function(function)[0]} over a window", span)
    call = engine_call(lowering, function, reason, {})
    assert isinstance(call, Aggregate)
    partition_nodes, order_nodes, spec = _definition(lowering, node)
    order = tuple(lowering.sort_key(each) for each in order_nodes)
    frame = None if spec is None else _frame(lowering, spec, order, span)
    partition = lowering.all(partition_nodes)
    return Over(
        call.function, call.arguments, partition, order, frame, call.type, True, ignore_nulls, span
    )


def _filtered(
    name: str, arguments: tuple[Expression, ...], where: Expression
) -> tuple[Expression, ...]:
    """FILTER over a window: rows that fail it give NULL, which aggregates pass over."""
    if not aggregates.is_aggregate(name) or name in ("first", "last", "any_value"):
        raise NotModelled(f"FILTER on {name} over a window", where.span)
    first = arguments[0] if arguments else Literal(1, INT)
    return (operators.choose([(where, first)], None, where.span), *arguments[1:])


Definition = tuple[list[exp.Expr], list[exp.Expr], exp.WindowSpec | None]


def _definition(lowering: ExpressionLowering, node: exp.Window) -> Definition:
    """PARTITION BY, ORDER BY and the frame, those of a named window included."""
    partition = list(node.args.get("partition_by") or [])
    order_node = node.args.get("order")
    order = list(order_node.expressions) if order_node is not None else []
    spec = node.args.get("spec")
    name = node.args.get("alias")
    if name is None:
        return partition, order, spec
    named = lowering.windows.get(name.name.lower())
    if named is None:
        raise UnknownName(
            f'there is no window "{name.name}"',
            hint=nearest(name.name, lowering.windows),
            span=lowering.span(name),
        )
    base_partition, base_order, base_spec = _definition(lowering, named)
    return base_partition + partition, base_order + order, spec or base_spec


def _frame(
    lowering: ExpressionLowering,
    spec: exp.WindowSpec,
    order: Sequence[SortKey],
    around: Span | None,
) -> Frame:
    """The frame; a bound without a number has no place in the text, so `around` is shown."""
    span = lowering.span(spec) or around
    kind = str(spec.args.get("kind") or "RANGE").lower()
    if kind not in ("rows", "range") or spec.args.get("exclude"):
        raise NotModelled(f"a frame of {kind.upper()}", span)
    unit: OneOf["rows", "range"] = "rows" if kind == "rows" else "range"
    sides = [_unbounded_side(spec, which) for which in ("start", "end")]
    if sides[0] == "FOLLOWING" or sides[1] == "PRECEDING":
        raise TypeMismatch("the frame ends before it starts", span=span)
    start = _bound(lowering, spec.args.get("start"), spec.args.get("start_side"), unit, order)
    end_node = spec.args.get("end")
    end = 0 if end_node is None else _bound(
        lowering, end_node, spec.args.get("end_side"), unit, order
    )  # fmt: skip
    if start is not None and end is not None and start > end:
        raise TypeMismatch("the frame ends before it starts", span=span)
    return Frame(unit, start, end)


def _unbounded_side(spec: exp.WindowSpec, which: str) -> str:
    """On which side a bound has no end; "" where it has one."""
    unbounded = str(spec.args.get(which)).upper() == "UNBOUNDED"
    return str(spec.args.get(f"{which}_side")).upper() if unbounded else ""


def _bound(
    lowering: ExpressionLowering,
    node: object,
    side: object,
    unit: str,
    order: Sequence[SortKey],
) -> int | None:
    if isinstance(node, str):
        return 0 if node.upper() == "CURRENT ROW" else None
    assert isinstance(node, exp.Expr)
    sign = -1 if str(side).upper() == "PRECEDING" else 1
    value = lowering.lower(node)
    if isinstance(value, Literal) and isinstance(value.value, int) and unit == "rows":
        return sign * value.value
    if isinstance(value, Literal) and unit == "range" and len(order) == 1:
        distance = _distance(value, order[0].expression)
        if distance is not None:
            return sign * distance
    if unit == "range" and len(order) == 1:
        what = f"a RANGE frame with an offset over {order[0].expression.type}"
        raise NotModelled(what, lowering.span(node))
    raise NotModelled("a frame with this bound", lowering.span(node))


def _distance(value: Literal, key: Expression) -> int | None:
    """How far a RANGE reaches, in units of the key: numbers, days, microseconds."""
    if isinstance(key.type, Integer) and isinstance(value.value, int):
        return value.value
    if isinstance(key.type, Date) and isinstance(value.value, int):
        return value.value
    if isinstance(value.type, Interval) and isinstance(value.value, tuple):
        months, microseconds = value.value
        if isinstance(key.type, Timestamp) and months == 0:
            return int(microseconds)
        if isinstance(key.type, Date) and months == 0 and microseconds % operators.DAY == 0:
            return int(microseconds) // operators.DAY
    return None


def in_levels(calls: Iterable[Over]) -> list[list[Over]]:
    """The calls by the order in which they tell the copies of a row apart, the others first.

    Equal rows are numbered by one order; a second order has to number them by what the first
    answered, or engines would pair the answers differently.
    """
    levels: dict[object, list[Over]] = {}
    free = list[Over]()
    for call in calls:
        apart = _tells_copies_apart(call)
        (levels.setdefault((call.partition, call.order), []) if apart else free).append(call)
    if not levels:
        return [free] if free else []
    first, *others = levels.values()
    return [free + first, *others]


def reaches_peers(call: Over) -> bool:
    """Whether the answer is one row's of the frame, which ends with the rows equal in order.

    Which row it is depends on the order among equal rows; the frame must not.
    """
    frame = call.frame or Frame("range", None, 0)
    chosen = call.function == "nth_value" or (
        call.function in ("first_value", "last_value") and call.ignore_nulls
    )
    is_default = frame.unit == "range" and frame.start is None and frame.end == 0
    return chosen and is_default and bool(call.order)


def of_last_peer(call: Over, inner: str, schema: Schema) -> tuple[Over, Over]:
    """Such a call as two: up to each row in a total order, then the last answer of equal rows.

    `inner` names the first, `schema` has the columns that it reads.
    """
    more = _more_keys(call, schema)
    up_to_row = replace(call, order=call.order + more)
    peers = call.partition + tuple(key.expression for key in call.order)
    answer = Column(inner, call.type, call.nullable)
    whole = Frame("rows", None, None)
    last = Over(
        "last_value", (answer,), peers, more, whole, call.type, call.nullable, False, call.span
    )
    return up_to_row, last


def break_ties(call: Over, schema: Schema) -> Over:
    """The call with the input's other columns as last keys, so that every engine agrees."""
    if not _depends_on_ties(call):
        return call
    more = _more_keys(call, schema)
    if not call.order and (call.frame is None or call.frame.unit == "range"):
        return replace(call, order=more, frame=Frame("rows", None, None))
    if _is_last_of_peers(call):
        # The last of the rows that are equal in order, whatever came before them.
        peers = call.partition + tuple(key.expression for key in call.order)
        return replace(call, partition=peers, order=more, frame=Frame("rows", None, None))
    return replace(call, order=call.order + more)


def _more_keys(call: Over, schema: Schema) -> tuple[SortKey, ...]:
    """The columns that the call does not order by yet."""
    used = {*call.partition, *(key.expression for key in call.order)}
    columns = (Column(each.name, each.type, each.nullable) for each in schema)
    return tuple(SortKey(each) for each in columns if each not in used and is_sortable(each))


def _is_last_of_peers(call: Over) -> bool:
    frame = call.frame or Frame("range", None, 0)
    is_range = frame.unit == "range" and frame.end == 0 and (frame.start or 0) <= 0
    return call.function == "last_value" and is_range and not call.ignore_nulls


def _depends_on_ties(call: Over) -> bool:
    own = WINDOW_FUNCTIONS.get(call.function)
    if own is not None and not own.takes_frame:
        return own.parts_peers
    if own is not None and not call.order:
        return True
    if _is_last_of_peers(call):
        return True
    frame = call.frame or Frame("range", None, 0)
    if call.function == "first_value" and frame.start is None:
        return True
    if call.function == "last_value" and frame.end is None:
        return True
    return frame.unit == "rows" and not (frame.start is None and frame.end is None)


def _tells_copies_apart(call: Over) -> bool:
    """Whether rows that are equal in all columns may get different answers."""
    own = WINDOW_FUNCTIONS.get(call.function)
    if own is not None and own.parts_peers:
        return True
    frame = call.frame or Frame("range", None, 0)
    whole = frame.start is None and frame.end is None
    return frame.unit == "rows" and not whole


def is_sortable(column: Expression) -> bool:
    """Whether values can be put in order: maps cannot."""
    return not (isinstance(column.type, Nested) and column.type.name.startswith("MAP"))

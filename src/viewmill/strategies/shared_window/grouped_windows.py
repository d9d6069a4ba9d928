"""GROUP BY window(ts, size, slide): every window that has rows, open ones too.

takes  an aggregate by the columns start and end of a row's windows
gives  its shape over the rows themselves, each once, and where start and end stand among the keys

The query writes a row once for each window that it is in. Here rows go into panes once, and windows
are put together from panes: those that are still open are queries over the newest panes, of as many
ranges as a row has windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Join, Named, Relation, Scan, Sort, Values
from viewmill.algebra.walk import columns_of, substitute
from viewmill.algebra.windows import SlidingWindow
from viewmill.codegen.shape import NotTaken, Shape, peel, require_shown


@dataclass(frozen=True)
class GroupedWindows:
    """The shape with the keys that are not of the window, all keys, and the places of two."""

    shape: Shape
    keys: tuple[Named, ...]
    start: int
    end: int


@dataclass(frozen=True)
class _Spread:
    """A row, written once for each window: how long windows are, and by what they differ."""

    scan: Scan
    where: tuple[Expression, ...]
    columns: dict[str, Expression]
    back: str  # the column that says how many windows back
    slide: int
    condition: Expression | None


def grouped_windows(query: Relation) -> GroupedWindows:
    """The shape of a query that groups by sliding windows, or `NotTaken`."""
    if isinstance(query, Sort):
        require_shown(query)
        query = query.input
    having, outputs, group = peel(query)
    if not isinstance(group, Aggregate) or group.grouping_sets is not None:
        raise NotTaken("there is no window on a table")
    conditions, columns, below = peel(group.input)
    spread = _spread(below)
    by_name = {name: substitute(each, spread.columns) for name, each in columns}
    keys = [(name, substitute(each, by_name)) for name, each in group.keys]
    found = [(i, _time_window(each, spread)) for i, (_, each) in enumerate(keys)]
    starts = [i for i, border in found if border is not None and border.after == 0]
    ends = [(i, border) for i, border in found if border is not None and border.after != 0]
    if len(starts) != 1 or len(ends) != 1:
        raise NotTaken("rows are not grouped by the start and the end of their windows")
    (start,), ((end, last),) = starts, ends
    where = (*spread.where, *(substitute(each, by_name) for each in conditions))
    calls = [(name, substitute(each, by_name)) for name, each in group.aggregates]
    rest = tuple(each for i, each in enumerate(keys) if i not in (start, end))
    read = [*where, *(each for _, each in rest), *(each for _, each in calls)]
    if any(spread.back in columns_of(each) for each in read):
        raise NotTaken("something besides the groups depends on the window of a row")
    _check_condition(spread, last)
    column, size, slide = last.time.removeprefix(f"{spread.scan.alias}."), last.after, spread.slide
    window = SlidingWindow("time", size, slide, column, offset=(last.offset + size) % slide)
    scan = replace(spread.scan, window=window)
    shape = Shape(scan, where, rest, tuple(calls), having, outputs)  # type: ignore[arg-type]
    return GroupedWindows(shape, tuple(keys), start, end)


def _spread(relation: Relation) -> _Spread:
    if not isinstance(relation, Join) or relation.kind not in ("cross", "inner"):
        raise NotTaken("there is no window on a table")
    where, columns, scan = peel(relation.left)
    values = relation.right
    if not isinstance(values, Values) or not isinstance(scan, Scan) or len(values.schema) != 1:
        raise NotTaken("there is no window on a table")
    steps = [_whole(row[0]) for row in values.rows]
    slide = steps[1] if len(steps) > 1 else 0
    if not slide or steps != [i * slide for i in range(len(values.rows))] or scan.window:
        raise NotTaken("there is no window on a table")
    name = values.schema.names[0]
    own: dict[str, Expression] = dict(columns)
    own[name] = Column(name, values.schema[0].type, False)
    condition = None if relation.condition is None else substitute(relation.condition, own)
    return _Spread(scan, where, own, name, slide, condition)


@dataclass(frozen=True)
class _Border:
    """A moment of each window of a row: so long after its start. Starts are `offset` after the
    multiples of the slide."""

    time: str
    after: int
    offset: int


def _time_window(key: Expression, spread: _Spread) -> _Border | None:
    """The border of the windows that a key is; None for other keys."""
    ticks = _argument(key, "timestamp_micros")
    size = 0
    ends = _arguments(ticks, "+")
    if ends is not None and isinstance(ends[1], Literal):
        ticks, size = ends[0], _whole(ends[1])
    back = _arguments(ticks, "-")
    if back is None or not isinstance(back[1], Column) or back[1].name != spread.back:
        return None
    last = _arguments(back[0], "-")
    within = None if last is None else _arguments(last[1], "pmod")
    phase = None if within is None else _arguments(within[0], "-")
    time = None if last is None else _argument(last[0], "unix_micros")
    if last is None or within is None or phase is None or not isinstance(time, Column):
        return None
    offset = phase[1]
    if _whole(within[1]) != spread.slide or not isinstance(offset, Literal) or phase[0] != last[0]:
        return None
    return _Border(time.name, size, _whole(offset))


def _check_condition(spread: _Spread, end: _Border) -> None:
    """Where the slide does not divide the size, a row is not in all windows that are written."""
    if spread.condition is None:
        return
    sides = _arguments(spread.condition, ">")
    if sides is not None:
        found = _time_window(Call("timestamp_micros", (sides[0],), sides[0].type), spread)
        time = _argument(sides[1], "unix_micros")
        if found == end and isinstance(time, Column) and time.name == end.time:
            return
    raise NotTaken("a condition depends on the window of a row")


def _whole(expression: Expression) -> int:
    """The number that a literal is; 0 of others."""
    value = expression.value if isinstance(expression, Literal) else 0
    return value if isinstance(value, int) else 0


def _arguments(expression: Expression | None, function: str) -> tuple[Expression, ...] | None:
    if isinstance(expression, Call) and expression.function == function:
        return expression.arguments
    return None


def _argument(expression: Expression | None, function: str) -> Expression | None:
    found = _arguments(expression, function)
    return None if found is None else found[0]

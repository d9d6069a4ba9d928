"""A window of time on shards: each keeps the panes of its rows, the driver puts windows together.

takes  an aggregate over a table with a window of time
gives  the aggregate by pane and key for the shards, and what the driver makes of all panes; None
       where the query is not of that form

A pane is as long as range, slide and lateness allow, so that time goes on for the driver, who sees
where panes begin, just as it does for who sees the rows: rows that WHERE leaves out bring it on
too, so they have a pane, whose aggregates leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from viewmill.algebra import expressions as e
from viewmill.algebra.conditions import filtered, together
from viewmill.algebra.relations import Aggregate, Filter, Relation, Scan
from viewmill.algebra.types import BIGINT, BOOLEAN, TIMESTAMP
from viewmill.algebra.units import interval_sql
from viewmill.algebra.walk import has_subquery, transform
from viewmill.algebra.windows import SlidingWindow
from viewmill.planner.sharding.partials import Halves, halve
from viewmill.planner.sharding.placed import conjuncts

_PANE, _ROWS = "pane of rows", "rows of pane"
PANE_COLUMN = "c0"  # what shards give is numbered, and the pane comes first


@dataclass(frozen=True)
class PaneHalves:
    """`halves` as of any aggregate whose parts are merged; `pane` in words."""

    halves: Halves
    pane: str


def pane_halves(aggregate: Aggregate) -> PaneHalves | None:
    """The shards' part and the driver's, if the window has them."""
    scan = aggregate.input.input if isinstance(aggregate.input, Filter) else aggregate.input
    if not isinstance(scan, Scan) or scan.window is None or scan.window.unit != "time":
        return None
    condition = aggregate.input.condition if isinstance(aggregate.input, Filter) else None
    conditions = [] if condition is None else list(conjuncts(condition))
    merged = halve(aggregate, floats="added")
    if merged is None or any(call.distinct for _, call in aggregate.aggregates):
        return None
    if any(map(has_subquery, conditions)):
        return None
    window = scan.window
    length = gcd(window.size, window.slide, window.lateness)
    calls = [(_ROWS, e.Aggregate("count", (), BIGINT, nullable=False)), *merged.part.aggregates]
    part = Aggregate(
        replace(scan, window=None),
        ((_PANE, _pane(scan, window, length)), *aggregate.keys),
        tuple((name, _filtered(call, conditions)) for name, call in calls),
    )

    def merge(back: Relation) -> Relation:
        own = replace(window, column=PANE_COLUMN)
        cut = transform(
            back, lambda each: replace(each, window=own) if isinstance(each, Scan) else each
        )
        some = e.Call(">", (e.Column(_ROWS, BIGINT), e.Literal(0, BIGINT)), BOOLEAN)
        return merged.merge(filtered(cut, [some]))

    words = interval_sql(length).replace("INTERVAL ", "").replace("'", "").lower()
    return PaneHalves(Halves(part, merge), words)


def _pane(scan: Scan, window: SlidingWindow, length: int) -> e.Expression:
    """Where the pane of a row begins."""
    field = next(each for each in scan.schema if each.name == f"{scan.alias}.{window.column}")
    time = e.Column(field.name, field.type, field.nullable)
    ticks = e.Call("unix_micros", (time,), BIGINT, field.nullable)
    within = e.Call("pmod", (ticks, e.Literal(length, BIGINT)), BIGINT, field.nullable)
    start = e.Call("-", (ticks, within), BIGINT, field.nullable)
    return e.Call("timestamp_micros", (start,), TIMESTAMP, field.nullable)


def _filtered(call: e.Aggregate, conditions: Sequence[e.Expression]) -> e.Aggregate:
    """The call over the rows that WHERE lets through."""
    own = [] if call.where is None else [call.where]
    return replace(call, where=together([*own, *conditions]))

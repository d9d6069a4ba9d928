"""The views of a pipeline in shards: which part of each runs where.

takes  a view's SQL, the mill whose catalog knows the sources
gives  `ShardedView` for the workers, and in the mill the table that gathers what shards give; the
       mill keeps the view over that table
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import Interval, Nested, Null, Type
from viewmill.algebra.units import interval_sql
from viewmill.algebra.walk import scans
from viewmill.algebra.walk import sources as sources_of
from viewmill.mill.catalog import GATHERED, Catalog, TableEntry
from viewmill.mill.parted import PartOptions
from viewmill.pipeline.shards.patterns import ShardPattern, finish_pattern, spread_pattern
from viewmill.planner.planner import PlanOptions, plan
from viewmill.planner.sharding.moments import gathered_schema, moments_of
from viewmill.planner.sharding.panes import PANE_COLUMN
from viewmill.planner.sharding.split import Split, split
from viewmill.program.display import state_label
from viewmill.program.exchange import ByKey, Exchange, HyperCube, Panes, Partials, Route, Single
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Program, Triggers
from viewmill.program.states import Passing
from viewmill.runtime.spark.programs import ShardProgram
from viewmill.strategies.strategy import Statistics


@dataclass(frozen=True)
class ShardedView:
    """What shards do for a view."""

    program: ShardProgram | ShardPattern
    exchange: Exchange
    routes: tuple[Route, ...]
    cells: int
    words: tuple[str, ...]  # the same for people
    options: str = ""  # of the table that gathers what shards give
    clock: PartOptions | None = None  # by which time goes on for all shards


@dataclass(frozen=True)
class NotSharded:
    """A view that the driver keeps, with the rows it reads."""

    why: str

    @property
    def words(self) -> tuple[str, ...]:
        """For people."""
        return (f"one shard, the driver: {self.why}",)


def gathering_table(view: str) -> str:
    """The table of the driver's mill that holds what shards give for a view."""
    return GATHERED + view.lower()


def reshape(
    catalog: Catalog, view: str, query: Relation, pattern: PatternQueries | None
) -> Relation:
    """What the driver's mill keeps of a view: if shards do their part, what is made of theirs."""
    table = gathering_table(view)
    if catalog.get(table) is None:
        return query
    return split(query, 2).finish(table) if pattern is None else finish_pattern(query, table)


def shard_view(
    view: str, query: Relation, slots: int, weights: Mapping[str, float], kept: Mapping[str, str]
) -> ShardedView | NotSharded:
    """How a view is spread; `kept` names what only the driver has, and why."""
    for name in sources_of(query):
        if name.lower() in kept:
            return NotSharded(kept[name.lower()])
    found = split(query, slots, weights)
    if isinstance(found.exchange, Single) and any(map(_has_moments, query.schema)):
        # What is gathered of a cofactor are numbers, and nothing here makes one value of them.
        return NotSharded(f"it has cofactors, and {found.exchange.why}")
    if isinstance(unfit := _unfit(found.below.schema), NotSharded):
        return unfit
    made = plan(view, found.below, Statistics(), PlanOptions(in_triggers=True))
    if not all(_runs_on_shards(each.program.body) for each in made.blocks):
        there = plan(view, query, Statistics(), PlanOptions()).strategy
        return NotSharded(f"{there} works on the driver's tables")
    blocks = [(each.name, replace(each.program, exchange=found.exchange)) for each in made.blocks]
    program = ShardProgram(view, tuple(blocks))
    kept_states = [
        f"keep  {state_label(state)}"
        for _, each in program.blocks
        for state in each.states
        if not isinstance(state.kind, Passing)
    ]
    words = (*_words(found), f"on each  {made.strategy}", *kept_states)
    options = _options(query) if isinstance(found.exchange, Panes) else ""
    return ShardedView(program, found.exchange, found.routes, found.cells, words, options)


def shard_pattern(
    view: str, program: Program, table: TableEntry, slots: int, kept: Mapping[str, str]
) -> ShardedView | NotSharded:
    """How a pattern is spread."""
    options = table.table.options.parts
    assert options is not None
    if table.name.lower() in kept:
        return NotSharded(kept[table.name.lower()])
    if options.archive is not None:
        return NotSharded(f"{table.name} is archived, which only the driver does")
    found = spread_pattern(view, program, table.sql, options, slots)
    if isinstance(unfit := _unfit(found.pattern.output), NotSharded):
        return unfit
    words = (
        f"spread   {found.exchange}",
        f"because  {_reason(found.exchange, 'the runs of a group')}",
        f"rows     {_route_words(found.route)}",
        *(["time     every shard is told the newest part of all rows"] if found.clock else []),
        "driver   holds the matches",
        "on each  temporal_view",
    )
    return ShardedView(
        found.pattern, found.exchange, (found.route,), found.cells, words, clock=found.clock
    )


def _unfit(schema: Schema) -> NotSharded | None:
    for field in gathered_schema(schema):
        if isinstance(field.type, Interval | Nested | Null):
            return NotSharded(
                f"what shards give is gathered in a table, which holds no {_word(field.type)}"
            )
    return None


def _options(query: Relation) -> str:
    """Panes have a time, and it goes on as that of the rows does."""
    window = next(scan.window for scan in scans(query) if scan.window is not None)
    late = f" LATENESS {interval_sql(window.lateness)}" if window.lateness else ""
    return f" TIMESTAMP BY {PANE_COLUMN}{late}"


def _has_moments(field: Field) -> bool:
    return moments_of(field.type) is not None


def _word(type_: Type) -> str:
    return str(type_).partition("<")[0]


def _runs_on_shards(body: object) -> bool:
    return isinstance(body, Triggers)


def _words(found: Split) -> list[str]:
    lines = [f"spread   {found.exchange}"]
    lines += [f"because  {_reason(found.exchange)}"]
    for route in found.routes:
        lines.append(f"rows     {_route_words(route)}")
    merged = isinstance(found.exchange, HyperCube) and found.exchange.finish
    merged = merged or isinstance(found.exchange, Partials)
    words = "merges the parts" if merged else "holds the result"
    if isinstance(found.exchange, Panes):
        words = "puts windows together from the shards' panes"
    if any(map(_has_moments, found.below.schema)):
        words = "adds up the cofactors"
    if isinstance(found.exchange, ByKey) and found.exchange.finish:
        words = "merges the value of all, then takes the groups for which the comparison holds"
    lines.append(f"driver   {words}")
    return lines


def _reason(exchange: Exchange, what: str = "rows that meet") -> str:
    match exchange:
        case Single():
            return "rows of all shards would have to meet"
        case HyperCube():
            return "a row goes to the cells that agree on the join variables that it has"
        case Panes():
            return "a pane's rows can be aggregated wherever they are, and windows share panes"
        case Partials():
            return "what shards know of a group can be merged"
        case _:
            return f"{what} agree on the key, so shards' results are disjoint"


def _route_words(route: Route) -> str:
    if not route.shares:
        return f"{route.source}: all to one shard"
    dimensions = zip(route.columns, route.shares, strict=True)
    words = ["copied" if each is None else f"by {', '.join(each)}" for each, _ in dimensions]
    copies = f", {route.copies} copies of each row" if route.copies > 1 else ""
    return f"{route.source}: {' and '.join(words)}{copies}"

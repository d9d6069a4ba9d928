"""Cut a view in two: what runs on every shard, and what the driver makes of it.

takes  a rewritten relation, the number of cells that rows are spread over
gives  `Split`: the relation below, a route for each of its scans, the relation above, and why so

From the top: the first part that can be answered shard by shard goes down whole; an aggregate whose
parts can be merged goes down in part; what stands above stays in the driver. If nothing can, all
rows go to one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.clock import clock_reads
from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import (
    columns_of,
    expressions,
    has_subquery,
    map_inputs,
    scans,
    walk_relations,
)
from viewmill.planner.sharding.hypercube import (
    choose_grid,
    is_hashed_alike,
    is_plain_join,
    own_names,
)
from viewmill.planner.sharding.moments import gathered_schema, moments_of
from viewmill.planner.sharding.panes import pane_halves
from viewmill.planner.sharding.partials import FloatMerge, Halves, halve
from viewmill.planner.sharding.placed import Names, NotPlaced, placed, routed, variables
from viewmill.planner.sharding.two_steps import two_steps
from viewmill.program.exchange import ByKey, Exchange, HyperCube, Panes, Partials, Route, Single
from viewmill.rewrite.correlation import transform_everywhere
from viewmill.rewrite.rules import rewrite

Above = Callable[[Relation], Relation]
ALIAS = "part"


@dataclass(frozen=True)
class Split:
    """`below` reads streams (see `Route.stream`) and gives columns c0, c1, ...

    `above` makes the view from a scan of everything that the shards give.
    """

    exchange: Exchange
    routes: tuple[Route, ...]
    below: Relation
    above: Above
    cells: int  # how many shards have rows

    def finish(self, source: str) -> Relation:
        """The view over the table that gathers what the shards give."""
        gathered = gathered_schema(self.below.schema)
        fields = tuple(replace(each, name=f"{ALIAS}.{each.name}") for each in gathered)
        return rewrite(self.above(Scan(source, ALIAS, Schema(fields))))


@dataclass(frozen=True)
class _Found:
    exchange: Exchange
    routes: Mapping[str, Route]  # by alias
    below: Relation
    merge: Above | None = None  # of an aggregate's parts


def split(query: Relation, cells: int, weights: Mapping[str, float] | None = None) -> Split:
    """The cheapest way to spread a view over `cells` cells; `weights` say how large sources are."""
    if next(clock_reads(query), None) is not None:
        raise NotPlaced("time passes in the driver's mill")
    found, above = _descend(query, cells, weights or {})
    streams = {alias: route.stream for alias, route in found.routes.items()}
    named = rewrite(_numbered(_reading(found.below, streams)))
    names = gathered_schema(found.below.schema).names

    def finish(read: Relation) -> Relation:
        fields = zip(names, read.schema, strict=True)
        outputs = tuple((name, Column(f.name, f.type, f.nullable)) for name, f in fields)
        back: Relation = Project(read, outputs)
        if found.merge is not None:
            back = found.merge(back)
        return above(back)

    is_single = isinstance(found.exchange, Single)
    routes = tuple(dict.fromkeys(found.routes.values()))
    return Split(found.exchange, routes, named, finish, 1 if is_single else cells)


def _descend(query: Relation, cells: int, weights: Mapping[str, float]) -> tuple[_Found, Above]:
    """The first relation from the top that can be spread, and what stands above it."""
    relation, passed = query, list[Relation]()
    why = ""
    while True:
        found = _spread(relation, cells, weights)
        if isinstance(found, _Found):
            return found, _rebuild(passed)
        why = why or found
        if not isinstance(relation, Filter | Project | Sort | Limit):
            return _on_one_shard(query, why), lambda read: read
        passed.append(relation)
        relation = relation.input


def _rebuild(passed: list[Relation]) -> Above:
    def above(read: Relation) -> Relation:
        for each in reversed(passed):
            read = map_inputs(each, lambda _, below=read: below)  # type: ignore[misc]
        return read

    return above


def _on_one_shard(query: Relation, why: str) -> _Found:
    routes = {scan.alias: Route(scan.source, (), ()) for scan in scans(query)}
    return _Found(Single(why), routes, query)


def _spread(relation: Relation, cells: int, weights: Mapping[str, float]) -> _Found | str:
    """How to spread a relation over shards, or why that is not possible."""
    if isinstance(relation, Sort):
        return "ORDER BY is of the whole result"
    has_moments = any(moments_of(each.type) is not None for each in relation.schema)
    if has_moments and not isinstance(relation, Aggregate):
        return "moments are merged where they are made"
    answer = _by_key(relation, cells)
    if isinstance(answer, _Found):
        return _with_moments(answer, relation) if has_moments else answer
    if is_plain_join(relation):
        return _by_grid(relation, relation, None, cells, weights) or answer
    if isinstance(relation, Aggregate):
        found = _in_parts(relation, cells, weights) or _in_two_steps(relation, cells)
        return found or _in_panes(relation, cells) or answer
    if isinstance(relation, Distinct):
        return _distinct_rows(relation, cells) or answer
    return answer


def _by_key(relation: Relation, cells: int) -> _Found | str:
    """Partition by the variables on which all rows that meet agree, or say why there is none."""
    why = "no column is shared by all rows that meet"
    fitting: list[Names] = []
    for variable in variables(relation):
        if not is_hashed_alike(variable, relation):
            continue
        try:
            placed(relation, variable)
            fitting.append(variable)
        except NotPlaced as no:
            why = no.reason or why
    if not fitting:
        return why
    routes = _routes(relation, fitting, cells)
    columns = next(iter(routes.values())).columns[0]
    return _Found(ByKey(columns or ()), routes, relation)


def _with_moments(found: _Found, relation: Relation) -> _Found | str:
    """Groups are complete on their shards, but the driver reassembles cofactors from numbers."""
    assert isinstance(relation, Aggregate)
    halves = halve(relation, frozenset(relation.schema.names), "rounded")  # groups are whole
    if halves is None:
        return "moments beside an aggregate whose parts cannot be merged"
    return replace(found, below=halves.part, merge=halves.merge)


def _routes(relation: Relation, fitting: list[Names], cells: int) -> dict[str, Route]:
    routes = {}
    for scan in scans(relation):
        columns = tuple(name for each in fitting if (name := routed(scan, each)) is not None)
        routes[scan.alias] = Route(scan.source, (cells,), (own_names(scan, columns),))
    return routes


def _in_parts(aggregate: Aggregate, cells: int, weights: Mapping[str, float]) -> _Found | None:
    """Compute partial aggregates on shards and merge them in the driver."""
    distinct = frozenset(
        name for _, call in aggregate.aggregates if call.distinct for name in columns_of(call)
    )
    if not distinct:
        halves = halve(aggregate, floats=_float_merge(aggregate))
        if halves is None:
            return None
        if is_plain_join(aggregate.input):
            return _by_grid(aggregate.input, halves.part, halves, cells, weights)
        below = _by_key(aggregate.input, cells)
        return _partials(below, halves) if isinstance(below, _Found) else None
    for variable in variables(aggregate.input):
        found = _distinct_parts(aggregate, variable, cells)
        if found is not None:
            return found
    return None


def _float_merge(aggregate: Aggregate) -> FloatMerge:
    """How to merge float sums: nested aggregates need each sum as one rounded float."""
    relations = walk_relations(aggregate.input)
    nested = any(has_subquery(each) for below in relations for each in expressions(below))
    return "rounded" if nested else "exact"


def _in_two_steps(aggregate: Aggregate, cells: int) -> _Found | None:
    """Groups compared with a global aggregate: shards keep groups, the driver compares."""
    found = two_steps(aggregate)
    if found is None or not is_hashed_alike(frozenset([found.column]), found.scan):
        return None
    columns = own_names(found.scan, (found.column,))
    routes = {found.scan.alias: Route(found.scan.source, (cells,), (columns,))}
    exchange = ByKey(columns or (), finish=True)
    return _Found(exchange, routes, found.halves.part, found.halves.merge)


def _in_panes(aggregate: Aggregate, cells: int) -> _Found | None:
    """A time window: shards keep panes, by key if there is one; the driver combines windows."""
    found = pane_halves(aggregate)
    if found is None:
        return None
    part = found.halves.part
    for below, by_key in ((part, True), (part.input, False)):
        spread = _by_key(below, cells)
        if isinstance(spread, _Found):
            columns = next(iter(spread.routes.values())).columns[0] or ()
            exchange = Panes(columns, found.pane, by_key)
            return _Found(exchange, spread.routes, part, found.halves.merge)
    return None


def _distinct_rows(relation: Distinct, cells: int) -> _Found | None:
    """DISTINCT on each shard, then again in the driver."""
    below = _by_key(relation.input, cells)
    if isinstance(below, str):
        return None
    columns = next(iter(below.routes.values())).columns[0] or ()
    return _Found(Partials(columns), below.routes, relation, Distinct)


def _distinct_parts(aggregate: Aggregate, variable: Names, cells: int) -> _Found | None:
    """Put equal values of a DISTINCT column on one shard, so that none is counted twice."""
    if not is_hashed_alike(variable, aggregate.input):
        return None
    try:
        halves = halve(aggregate, placed(aggregate.input, variable), _float_merge(aggregate))
    except NotPlaced:
        return None
    if halves is None:
        return None
    routes = _routes(aggregate.input, [variable], cells)
    return _partials(_Found(ByKey(()), routes, aggregate.input), halves)


def _partials(below: _Found, halves: Halves) -> _Found:
    columns = next(iter(below.routes.values())).columns[0] or ()
    return _Found(Partials(columns), below.routes, halves.part, halves.merge)


def _by_grid(
    joined: Relation,
    below: Relation,
    halves: Halves | None,
    cells: int,
    weights: Mapping[str, float],
) -> _Found | None:
    grid = choose_grid(joined, cells, weights)
    if grid is None:
        return None
    merge = None if halves is None else halves.merge
    exchange: Exchange = HyperCube(grid.shares, finish=halves is not None)
    if len(grid.routes) == 1:
        (route,) = grid.routes.values()
        exchange = Partials(route.columns[0] or ())
    return _Found(exchange, grid.routes, below, merge)


# The relation below, as shards see it.


def _reading(relation: Relation, streams: Mapping[str, str]) -> Relation:
    """Let the scans of a relation read streams, also in subqueries."""

    def change(each: Relation) -> Relation:
        if isinstance(each, Scan):
            return replace(each, source=streams[each.alias])
        return each

    return transform_everywhere(relation, change)


def _numbered(relation: Relation) -> Relation:
    """Rename the columns to c0, c1, ..., which are valid column names of a table."""
    fields = enumerate(relation.schema)
    return Project(
        relation, tuple((f"c{i}", Column(f.name, f.type, f.nullable)) for i, f in fields)
    )

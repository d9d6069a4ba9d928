"""Fully recursive maintenance, as DBToaster does it: a view for every join that a change leaves.

takes  `Block`
gives  a program: the change of a table falls apart into connected sub-joins of the others, each of
       which is a view that is kept, and so on for the change of each such view

The views are not arranged in one tree: a table is kept up in every view that contains it. All
aggregates share one payload; a program for each aggregate alone is the variant with scalars.
"""

from __future__ import annotations

from viewmill.algebra.relations import Values
from viewmill.codegen.source import Source
from viewmill.program.program import Program, Trigger
from viewmill.program.states import State
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path, Step, Visit, order_visits
from viewmill.strategies.view_tree.emit import assemble
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.result import STATE, Result
from viewmill.strategies.view_tree.states import StateRefs, indexed_state, listed_state
from viewmill.strategies.view_tree.tree import View
from viewmill.strategies.view_tree.trigger import TriggerWriter
from viewmill.strategies.view_tree.variable_order import components, hypergraph

Tables = frozenset[str]


class SubJoins:
    """The connected sub-joins of a block as views."""

    def __init__(self, block: Block) -> None:
        self.block, self.graph = block, hypergraph(block)
        self.everything = frozenset(self.graph)
        self._views: dict[Tables, View] = {}

    def rest(self, tables: Tables, without: str) -> list[Tables]:
        """What a sub-join falls apart into when a change fixes one of its tables."""
        return self.apart(tables - {without}, self.graph[without])

    def apart(self, tables: Tables, known: frozenset[str]) -> list[Tables]:
        """The parts of some tables that know nothing of each other."""
        within = {alias: self.graph[alias] for alias in self.graph if alias in tables}
        bare = [frozenset({alias}) for alias in within if within[alias] <= known]
        return [*bare, *components(within, known)]

    def reached(self) -> list[Tables]:
        """Every sub-join that the recursion needs, larger ones first."""
        found, waiting = [self.everything], [self.everything]
        while waiting:
            tables = waiting.pop()
            for part in (p for alias in tables for p in self.rest(tables, alias)):
                if part not in found:
                    found.append(part)
                    waiting.append(part)
        return sorted(found, key=lambda part: (-len(part), sorted(part)))

    def _variables(self, tables: Tables) -> frozenset[str]:
        return frozenset().union(*(self.graph[alias] for alias in tables))

    def keys(self, tables: Tables) -> tuple[str, ...]:
        """The variables that others have too, or that the view shows."""
        outside = self._variables(self.everything - tables) | frozenset(self.block.free)
        wanted = self._variables(tables) & outside
        return tuple(v.name for v in self.block.variables if v.name in wanted)

    def _lifted(self, tables: Tables) -> frozenset[str]:
        if tables == self.everything:
            return self._variables(tables)
        return self._variables(tables) - set(self.keys(tables))

    def view(self, tables: Tables) -> View:
        """The view of a sub-join."""
        if tables not in self._views:
            alone = [frozenset({alias}) for alias in sorted(tables)] if len(tables) > 1 else []
            leaves = tuple(self.view(each) for each in alone)
            self._views[tables] = self._made(tables, self._lifted(tables), leaves)
        return self._views[tables]

    def joined(self, tables: Tables, changed: str, parts: list[View]) -> View:
        """Rewrite a view as the join of one of its tables with views of the others."""
        below = frozenset().union(*(part.lifted() for part in parts)) if parts else frozenset()
        children = (self.view(frozenset({changed})), *parts)
        return self._made(tables, self._lifted(tables) - below, children)

    def _made(self, tables: Tables, lifted: frozenset[str], children: tuple[View, ...]) -> View:
        members = [each.alias.lower() for each in self.block.occurrences if each.alias in tables]
        variables = tuple(v.name for v in self.block.variables if v.name in lifted)
        single = len(tables) == 1
        return View(
            "_".join(members), self.keys(tables), tables, () if single else variables, children
        )


def recursive_program(block: Block, name: str = "recursive") -> Program:
    """The program of all sub-joins."""
    joins = SubJoins(block)
    reached = joins.reached()
    inner = [joins.view(tables) for tables in reached if tables != joins.everything]
    whole = joins.view(joins.everything)
    root = View(whole.name, whole.keys, whole.relations, whole.variables, tuple(inner))
    layout = Layout(block, root)
    result = Result(block, layout)
    paths = {each.alias: _paths(joins, reached, each.alias) for each in block.occurrences}
    places = _places(block, layout, inner, [path for each in paths.values() for path in each])
    states = [State(p.state, p.kind, Values((), p.kind.schema)) for p in places.all]
    states.append(State(STATE, result.kind, Values((), result.kind.schema)))

    def write(writer: TriggerWriter, names: list[str]) -> tuple[Trigger, ...]:
        return tuple(writer.write(each, (), names) for each in paths.values())

    writer = TriggerWriter(Source(), block, layout, places, result)
    return assemble(writer, states, write, name, [f"{len(states)} views"])


def _paths(joins: SubJoins, reached: list[Tables], alias: str) -> list[Path]:
    """For each view with the table: its change, joined with the views of what is left."""
    paths = []
    leaf = joins.view(frozenset({alias}))
    for tables in reached:
        if alias not in tables:
            continue
        if tables == leaf.relations:
            paths.append(Path(alias, (Step(leaf, is_stored=True, visits=()),)))
            continue
        parts = [joins.view(part) for part in joins.rest(tables, alias)]
        above = joins.joined(tables, alias, parts)
        visits: tuple[Visit, ...] = order_visits(parts, set(leaf.keys))
        first = Step(leaf, is_stored=False, visits=visits)
        paths.append(Path(alias, (first, Step(above, is_stored=True, visits=()))))
    return paths


def _places(block: Block, layout: Layout, views: list[View], paths: list[Path]) -> StateRefs:
    """A state of its own for each view, and one more for each way in which it is visited."""
    places = StateRefs(block, layout)
    for view in views:
        visits = [visit for path in paths for step in path.steps for visit in step.visits]
        scanned = [v.bound for v in visits if v.view.name == view.name and not v.is_lookup]
        bounds = list(dict.fromkeys(scanned))
        for bound in bounds:
            places.all.append(listed_state(places, view, bound, len(bounds) > 1))
        if not bounds:
            places.all.append(indexed_state(places, [view]))
    return places

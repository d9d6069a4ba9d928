"""Everything decided about a view tree before it is written down.

takes  `Block`, statistics
gives  `TreePlan`: the variable order, the tree, what is kept, the paths, the states
next   emit, explain
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import (
    Path,
    Reaction,
    delta_path,
    filling_path,
    reactions_of,
)
from viewmill.strategies.view_tree.estimate import Sizes, average_cost, path_cost
from viewmill.strategies.view_tree.indicators import add_indicators
from viewmill.strategies.view_tree.layout import Layout, is_of_ring
from viewmill.strategies.view_tree.links import add_links
from viewmill.strategies.view_tree.materialize import materialize, materialize_filling
from viewmill.strategies.view_tree.result import STATE
from viewmill.strategies.view_tree.search import find_order
from viewmill.strategies.view_tree.states import StateRefs, place_views
from viewmill.strategies.view_tree.tree import View, view_tree
from viewmill.strategies.view_tree.variable_order import Order


@dataclass(frozen=True)
class Node:
    """A place of a factorized result: a list of values of a variable, and what each leads to.

    `rows` are lists of rows of tables that show columns of their own, `counted` views that only say
    how often a row is there. The top has no variable.
    """

    variable: str | None
    rows: tuple[View, ...]
    children: tuple[Node, ...]
    counted: tuple[View, ...]
    values: View | None = None

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class TreePlan:
    """A view tree, ready to be written."""

    block: Block
    order: Order
    root: View
    kept: dict[str, str]
    paths: list[Path]
    layout: Layout
    places: StateRefs
    reactions: dict[str, list[Reaction]]  # by occurrence
    steps: float  # of an update of one row, on average
    entries: float  # in all states
    result: Node | None = None  # of a factorized result: how rows are put together
    costs: Mapping[str, float] = field(default_factory=dict)  # steps by occurrence
    # Of tables that never change, where states are built by feeding them, before all others.
    fed: list[Path] = field(default_factory=list)


def plan_tree(
    block: Block,
    statistics: Statistics,
    order: Order | None = None,
    *,
    indicators: bool = True,
) -> TreePlan:
    """The cheapest tree, or the tree of a given order."""
    changing = frozenset(
        each.alias for each in block.occurrences if each.scan.source not in statistics.static
    )
    sizes = Sizes(block, statistics)
    best = order or find_order(block, sizes, changing)
    root = view_tree(block, best)
    if indicators:
        root = add_indicators(root)
    # States that no SQL states are built by feeding every table, those that never change too.
    is_fed = bool(block.beside) or any(is_of_ring(call) for _, call in block.aggregates)
    if is_fed and any(view.indicators for view in root.walk()):
        changing = frozenset(each.alias for each in block.occurrences)
    kept = materialize(root, changing)
    static = [each.alias for each in block.occurrences if each.alias not in changing]
    filling = materialize_filling(root, changing) if is_fed and static else {}
    fed = [filling_path(root, each, kept | filling, changing) for each in static if is_fed]
    paths = [delta_path(root, o.alias, kept) for o in block.occurrences if o.alias in changing]
    reactions = reactions_of(root, kept, changing)
    layout = Layout(block, root, statistics.careful)
    further = [reaction.path for each in reactions.values() for reaction in each]
    places = place_views(block, layout, root, kept | filling, [*paths, *fed, *further])
    add_links(places, [*paths, *further], STATE)
    steps = average_cost(paths, sizes)
    entries = sum(sizes.of(view) for view in root.walk() if view.name in kept)
    costs = {path.leaf: path_cost(path, sizes) for path in paths}
    return TreePlan(
        block, best, root, kept, paths, layout, places, reactions, steps, entries, costs=costs,
        fed=fed,
    )  # fmt: skip

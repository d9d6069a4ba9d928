"""Plan a factorized result: every view that holds a shown variable is part of it (section 7.3).

takes  `Block` of a join without aggregates, statistics
gives  `TreePlan` whose `result` says how rows are put together from the states
next   enumeration, emit

Under the variables above it, a variable has a list of values; rows of a table that shows columns of
its own are a list, too. The count under a value is that of all rows below it, so lists never lead
into nothing, and the count at the root is that of the result. The multiplicity of one row is the
product of the payloads at the leaves only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from viewmill.codegen.shape import NotTaken
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import delta_path
from viewmill.strategies.view_tree.estimate import Sizes, average_cost
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.materialize import materialize
from viewmill.strategies.view_tree.plan import Node, TreePlan
from viewmill.strategies.view_tree.search import find_order
from viewmill.strategies.view_tree.states import listed_state, place_views
from viewmill.strategies.view_tree.tree import View
from viewmill.strategies.view_tree.variable_order import Order

PART = "part of the result"


def plan_factorized(block: Block, statistics: Statistics, order: Order | None = None) -> TreePlan:
    """The tree of the cheapest or of a given order."""
    if not block.listed:
        raise NotTaken(
            "RESULT FACTORIZED is for joins without aggregates: groups are listed", block.query.span
        )
    changing = frozenset(
        each.alias for each in block.occurrences if each.scan.source not in statistics.static
    )
    skeleton = _skeleton(block)
    best = order or find_order(skeleton, Sizes(skeleton, statistics), changing)
    root, top = _Tree(block).build(_without_local(best, block))
    kept = _kept(root, top, changing)
    paths = [delta_path(root, o.alias, kept) for o in block.occurrences if o.alias in changing]
    layout = Layout(block, root)
    lists = {view.name: first for view, first in _lists(top)}
    counted = {name: why for name, why in kept.items() if name not in lists}
    places = place_views(block, layout, root, counted, paths)
    by_name = {view.name: view for view in root.walk()}
    places.all += [listed_state(places, by_name[n], first) for n, first in lists.items()]
    sizes = Sizes(block, statistics)
    entries = sum(sizes.of(view) for view in root.walk() if view.name in kept)
    steps = average_cost(paths, sizes)
    return TreePlan(block, best, root, kept, paths, layout, places, {}, steps, entries, top)


def _skeleton(block: Block) -> Block:
    """The block without the columns of single tables: those stay with their rows."""
    joined = tuple(each for each in block.variables if each.is_joined)
    names = {each.name for each in joined}
    free = tuple(name for name in block.free if name in names)
    return replace(block, variables=joined, free=free)


def _without_local(order: Order, block: Block) -> Order:
    """An order without the columns of single tables, which a hint may name."""
    children: list[Order] = []
    relations = list(order.relations)
    for each in (_without_local(child, block) for child in order.children):
        if each.variable is not None and not block.variable(each.variable).is_joined:
            children += each.children
            relations += each.relations
        else:
            children.append(each)
    return Order(order.variable, tuple(relations), tuple(children))


@dataclass
class _Tree:
    """Builds the views, and beside them the nodes of the result."""

    block: Block

    def build(self, order: Order) -> tuple[View, Node]:
        made = [self._below(each) for each in order.children]
        leaves = [self._leaf(alias) for alias in order.relations]
        views = [view for view, _ in (*leaves, *made)]
        root = (
            views[0]
            if len(views) == 1
            else View("all_rows", (), _relations(views), (), tuple(views))
        )
        return root, self._node(leaves, made)

    def _below(self, order: Order) -> tuple[View, Node | None]:
        """The view of a variable, and its node if something below it is shown."""
        made = [self._below(each) for each in order.children]
        leaves = [self._leaf(alias) for alias in order.relations]
        views = [view for view, _ in (*leaves, *made)]
        relations = _relations(views)
        together = "_".join(o.alias.lower() for o in self.block.occurrences if o.alias in relations)
        below = {key for view in views for key in view.keys}
        variable = order.variable
        assert variable is not None
        keys = self._ordered(below - {variable})
        node = self._node(leaves, made)
        if variable not in self.block.free and not node.rows and not node.children:
            return View(
                f"{together}_at_{variable}", keys, relations, (variable,), tuple(views)
            ), None
        name = f"{variable}_in_{together}"
        values = View(name, self._ordered(below), relations, (), tuple(views))
        view = View(f"{together}_at_{variable}", keys, relations, (variable,), (values,))
        return view, replace(node, values=values, variable=variable)

    def _node(
        self, leaves: list[tuple[View, View | None]], made: list[tuple[View, Node | None]]
    ) -> Node:
        rows = tuple(row for _, row in leaves if row is not None)
        children = tuple(node for _, node in made if node is not None)
        counted = [view for view, row in leaves if row is None]
        counted += [view for view, node in made if node is None]
        return Node(None, rows, children, tuple(counted))

    def _leaf(self, alias: str) -> tuple[View, View | None]:
        """The count of a table by its joined columns, and its rows if it shows others, too."""
        variables = self.block.variables_of(alias)
        joined = self._ordered({each.name for each in variables if each.is_joined})
        local = tuple(each.name for each in variables if not each.is_joined)
        relations = frozenset({alias})
        if not local:
            return View(alias.lower(), joined, relations, ()), None
        rows = View(f"{alias.lower()}_rows", self._ordered({*joined, *local}), relations, ())
        return View(alias.lower(), joined, relations, local, (rows,)), rows

    def _ordered(self, names: set[str]) -> tuple[str, ...]:
        return tuple(each.name for each in self.block.variables if each.name in names)


def _relations(views: list[View]) -> frozenset[str]:
    return frozenset().union(*(view.relations for view in views))


def _kept(root: View, top: Node, changing: frozenset[str]) -> dict[str, str]:
    kept = materialize(root, changing)
    kept[root.name] = "the number of rows"
    for view, _ in _lists(top):
        kept[view.name] = PART
    for node in top.walk():
        if node.rows or node.children:
            for view in node.counted:
                kept.setdefault(view.name, "counts how often a row is there")
    return kept


def _lists(top: Node) -> Iterator[tuple[View, tuple[str, ...]]]:
    """The lists of the result, and the variables that each is found by."""
    for node in top.walk():
        if node.values is not None:
            yield node.values, tuple(key for key in node.values.keys if key != node.variable)
        for rows in node.rows:
            parent_keys = {*node.values.keys} if node.values is not None else set()
            yield rows, tuple(key for key in rows.keys if key in parent_keys)

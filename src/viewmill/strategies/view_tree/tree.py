"""The view tree of a variable order (F-IVM, Figure 3).

takes  `Block` and `Order`
gives  `View`: leaves are tables with their local columns aggregated away, inner views join their
       children at a variable and sum it out unless it is free; a chain of variables with nothing
       to join is one view
next   materialize, deltas, emit
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.variable_order import Order


@dataclass(frozen=True)
class View:
    """A view of the tree over `keys`; leaves and the view above a forest have no variables.

    An indicator says which keys a table has that is not below its view; it is no child and is below
    no table.
    """

    name: str
    keys: tuple[str, ...]
    relations: frozenset[str]
    variables: tuple[str, ...]  # that are fixed here, the highest first
    children: tuple[View, ...] = ()
    indicators: tuple[View, ...] = ()
    indicates: str | None = None  # of an indicator: its table

    @property
    def is_leaf(self) -> bool:
        """Whether it is a table with its local columns aggregated away, or an indicator."""
        return not self.children

    def walk(self) -> Iterator[View]:
        """This view and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def moved_by(self) -> frozenset[str]:
        """The tables whose changes reach it, by an indicator too."""
        own = frozenset({self.indicates}) if self.indicates else self.relations
        below = (each.moved_by() for each in (*self.children, *self.indicators))
        return own.union(*below)

    def lifted(self) -> frozenset[str]:
        """The variables whose values are multiplied in at this view or below."""
        return frozenset(variable for each in self.walk() for variable in each.variables)


def view_tree(block: Block, order: Order) -> View:
    """The tree; its root is the query's result."""
    roots = [_view(block, each) for each in order.children]
    if len(roots) == 1 and order.variable is None and not order.relations:
        return roots[0]
    return _join(block, order, roots)


def _view(block: Block, order: Order) -> View:
    children = [_view(block, each) for each in order.children]
    return _join(block, order, children)


def _join(block: Block, order: Order, children: list[View]) -> View:
    children = [*(_leaf(block, alias) for alias in order.relations), *children]
    relations = frozenset().union(*(each.relations for each in children))
    below = {key for each in children for key in each.keys}
    # keys = dep(X) and the free variables below; X itself is among them only if it is free.
    free = below & set(block.free)
    kept = (below - {order.variable}) | free
    keys = tuple(each.name for each in block.variables if each.name in kept)
    name = _name(order.variable, relations, block)
    variables = (order.variable,) if order.variable else ()
    if len(children) > 1:
        return View(name, keys, relations, variables, tuple(children))
    (child,) = children
    if child.is_leaf:  # a free variable of one table: the view would be the table
        return child
    return View(name, keys, relations, (*variables, *child.variables), child.children)


def _leaf(block: Block, alias: str) -> View:
    keys = tuple(variable.name for variable in block.variables_of(alias))
    return View(alias.lower(), keys, frozenset({alias}), ())


def _name(variable: str | None, relations: frozenset[str], block: Block) -> str:
    """Named by the tables it joins, and by its variable where that leaves a doubt."""
    together = "_".join(o.alias.lower() for o in block.occurrences if o.alias in relations)
    return f"{together}_at_{variable}" if variable else together


def parents(root: View) -> dict[str, View]:
    """The view above each view, by name."""
    return {child.name: view for view in root.walk() for child in view.children}

"""Find a variable order: in which order the join columns are fixed (section 3).

takes  `Block`, statistics
gives  `Order`: a tree of variables, each table below its lowest one
next   tree

Removing a variable splits the rest into parts that know nothing of each other; each part is ordered
on its own. All orders are tried as long as there are not too many, and judged by what an update to
each table would cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from viewmill.strategies.view_tree.block import Block

_MOST_ORDERS = 3000


@dataclass(frozen=True)
class Order:
    """A variable, the tables whose lowest variable it is, and what lies below it."""

    variable: str | None  # None: only at the top, to hold several trees or tables without variables
    relations: tuple[str, ...] = ()
    children: tuple[Order, ...] = ()

    def __str__(self) -> str:
        below = [str(each) for each in self.children]
        inside = f"({', '.join(below)})" if below else ""
        return f"{self.variable}{inside}" if self.variable else ", ".join(below) or "()"


Hypergraph = Mapping[str, frozenset[str]]  # the variables of each table


def hypergraph(block: Block) -> dict[str, frozenset[str]]:
    """The variables of each occurrence."""
    return {
        each.alias: frozenset(variable.name for variable in block.variables_of(each.alias))
        for each in block.occurrences
    }


def orders(block: Block) -> Iterator[Order]:
    """Variable orders, those with free variables on top first."""
    graph = hypergraph(block)
    bare = tuple(alias for alias, variables in graph.items() if not variables)
    parts = components(graph, frozenset())
    choices = [list(islice(_orders(block, graph, p, frozenset()), _MOST_ORDERS)) for p in parts]
    for children in product(*choices):
        yield Order(None, bare, tuple(children))


def _orders(
    block: Block, graph: Hypergraph, part: frozenset[str], above: frozenset[str]
) -> Iterator[Order]:
    """The orders of the tables in `part`, whose variables in `above` are fixed already."""
    open_ = frozenset().union(*(graph[alias] for alias in part)) - above
    free = [v.name for v in block.variables if v.name in open_ and v.name in block.free]
    bound = [v.name for v in block.variables if v.name in open_ and v.name not in block.free]
    for variable in [*free, *bound]:
        fixed = above | {variable}
        done = tuple(alias for alias in graph if alias in part and graph[alias] <= fixed)
        rest = {alias: graph[alias] for alias in graph if alias in part and alias not in done}
        below = components(rest, fixed)
        choices = [list(islice(_orders(block, graph, p, fixed), _MOST_ORDERS)) for p in below]
        for children in product(*choices):
            yield Order(variable, done, tuple(children))


def components(graph: Hypergraph, fixed: frozenset[str]) -> list[frozenset[str]]:
    """Tables that hang together by variables that are not fixed."""
    parts: list[tuple[set[str], set[str]]] = []
    for alias, variables in graph.items():
        own = set(variables - fixed)
        if not own:
            continue
        touching = [each for each in parts if each[1] & own]
        members, joined = {alias}, set(own)
        for each in touching:
            members |= each[0]
            joined |= each[1]
            parts.remove(each)
        parts.append((members, joined))
    return [frozenset(members) for members, _ in parts]


def first_orders(block: Block) -> list[Order]:
    """As many orders as there is time to judge."""
    return list(islice(orders(block), _MOST_ORDERS))

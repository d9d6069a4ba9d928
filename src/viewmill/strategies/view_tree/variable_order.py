"""A variable order: in which order the join columns are fixed (section 3, Definition 3.1).

takes  `Block`
gives  `Order`: a tree of variables, each table below its lowest one; what hangs together below
       variables that are fixed
next   search (finds the best), hint (reads one), tree
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from viewmill.strategies.view_tree.block import Block


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

    def walk(self) -> Iterator[Order]:
        """This order and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


Hypergraph = Mapping[str, frozenset[str]]  # the variables of each table


def hypergraph(block: Block) -> dict[str, frozenset[str]]:
    """The variables of each occurrence."""
    return {
        each.alias: frozenset(variable.name for variable in block.variables_of(each.alias))
        for each in block.occurrences
    }


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

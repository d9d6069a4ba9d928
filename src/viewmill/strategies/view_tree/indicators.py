"""Bound the views of a cyclic join by what other tables can meet (F-IVM, section 6, Figure 7).

takes  the tree
gives  the tree with indicators: at a view whose children form a cycle with a table elsewhere, which
       keys that table has
next   materialize, deltas, states

    X(A,B), Y(B,C), Z(C,A), order A(B(C))   the view of Y and Z at C holds every path from b to a;
                                            with an indicator only those that X closes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from viewmill.strategies.view_tree.gyo import surviving
from viewmill.strategies.view_tree.tree import View


def add_indicators(root: View) -> View:
    """The tree with the indicators that close cycles."""
    leaves = {min(each.relations): each for each in root.walk() if each.is_leaf}
    return _with_indicators(root, leaves)


def _with_indicators(view: View, leaves: dict[str, View]) -> View:
    if view.is_leaf:
        return view
    children = tuple(_with_indicators(each, leaves) for each in view.children)
    shared = {key for each in children for key in each.keys}
    others = {
        alias: frozenset(leaf.keys) & shared
        for alias, leaf in leaves.items()
        if alias not in view.relations
    }
    found = surviving([frozenset(each.keys) for each in children], others)
    made = tuple(_indicator(leaves[alias], others[alias]) for alias in found)
    return replace(view, children=children, indicators=made)


def _indicator(leaf: View, shared: frozenset[str]) -> View:
    (alias,) = leaf.relations
    keys = tuple(key for key in leaf.keys if key in shared)
    name = f"has_{leaf.name}" if keys == leaf.keys else f"has_{leaf.name}_{'_'.join(keys)}"
    return View(name, keys, frozenset(), (), indicates=alias)


def holders(root: View) -> Iterator[tuple[View, View]]:
    """Each indicator and the view that has it, from the root downwards.

    A change of an indicator goes up through views whose indicators of the same table have changed
    already: new ones above, old ones below, as for the occurrences of a self-join.
    """
    waiting = [root]
    while waiting:
        view = waiting.pop(0)
        yield from ((indicator, view) for indicator in view.indicators)
        waiting += view.children


def same_as_table(indicator: View, root: View) -> View | None:
    """The table's own view, if it has the keys of the indicator and no others."""
    leaf = next(v for v in root.walk() if v.is_leaf and indicator.indicates in v.relations)
    return leaf if leaf.keys == indicator.keys else None

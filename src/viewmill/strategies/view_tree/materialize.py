"""Which views are kept (F-IVM, Figure 5): the root, and each view whose sibling can change.

takes  the tree, the occurrences that can change
gives  for each kept view the reason
"""

from __future__ import annotations

from viewmill.strategies.view_tree.indicators import holders, same_as_table
from viewmill.strategies.view_tree.tree import View


def materialize(root: View, changing: frozenset[str]) -> dict[str, str]:
    """Why each kept view is kept, by its name; of an indicator its own counts, or its table."""
    kept = {root.name: "the result"}
    for view in root.walk():
        for child in view.children:
            others = [o for o in (*view.children, *view.indicators) if o is not child]
            because = sorted(changing & _movers(others))
            if because:
                kept[child.name] = f"joined when {_some(because)} changes"
    for indicator, holder in holders(root):
        stored = same_as_table(indicator, root) or indicator
        why = f"says what {holder.name} can meet"
        kept[stored.name] = f"{kept[stored.name]}; {why}" if stored.name in kept else why
    return kept


def materialize_filling(root: View, changing: frozenset[str]) -> dict[str, str]:
    """What must be there while tables that never change are fed, and can go afterwards: the views
    that they are joined from with one another."""
    return {
        child.name: "until the tables that never change are read"
        for view in root.walk()
        if len(view.children) > 1 and not view.relations & changing
        for child in view.children
    }


def _movers(views: list[View]) -> frozenset[str]:
    return frozenset().union(*(view.moved_by() for view in views))


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

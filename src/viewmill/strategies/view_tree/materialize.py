"""Which views are kept (Figure 5; ERRATA F5): the root, and each view whose sibling can change.

takes  the tree, the occurrences that can change
gives  for each kept view the reason
"""

from __future__ import annotations

from viewmill.strategies.view_tree.tree import View


def materialize(root: View, changing: frozenset[str]) -> dict[str, str]:
    """Why each kept view is kept, by its name."""
    kept = {root.name: "the result"}
    for view in root.walk():
        for child in view.children:
            because = [
                alias
                for other in view.children
                if other is not child
                for alias in sorted(other.relations & changing)
            ]
            if because:
                kept[child.name] = f"joined when {_some(because)} changes"
    return kept


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

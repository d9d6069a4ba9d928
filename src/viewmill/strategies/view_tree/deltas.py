"""How a change of one table climbs the tree (F-IVM, Figure 4).

takes  the tree, the views that are kept
gives  a `Path` for each table that can change: at each view above it, which siblings are looked up
       by a key that is known, and which are visited because part of their key is not
next   states, emit
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.strategies.view_tree.indicators import holders
from viewmill.strategies.view_tree.tree import View, parents


@dataclass(frozen=True)
class Visit:
    """A sibling view joined with the change; `bound` are those of its keys that are known then.

    A `rival` lacks the same keys: whichever of the two lists is shorter is gone through, and the
    other one looked up.
    """

    view: View
    bound: tuple[str, ...]
    rival: Visit | None = None

    @property
    def is_lookup(self) -> bool:
        """Whether its whole key is known."""
        return self.bound == self.view.keys


@dataclass(frozen=True)
class Step:
    """The change reaches `view`: it is added if the view is kept, then meets its siblings there."""

    view: View
    is_stored: bool
    visits: tuple[Visit, ...]  # of the siblings; empty at the root


@dataclass(frozen=True)
class Path:
    """From the leaf of one occurrence to the root."""

    leaf: str
    steps: tuple[Step, ...]

    @property
    def loops(self) -> int:
        """How many visits are nested: 0 is constant time, 1 linear, and so on."""
        return sum(not visit.is_lookup for step in self.steps for visit in step.visits)

    @property
    def cost_class(self) -> str:
        """The time of an update of one row."""
        return {0: "O(1)", 1: "O(n)"}.get(self.loops, f"O(n^{self.loops})")


@dataclass(frozen=True)
class Reaction:
    """What follows when a table gains or loses a key: an indicator changes at a view."""

    indicator: View
    path: Path


def reactions_of(
    root: View, kept: dict[str, str], changing: frozenset[str]
) -> dict[str, list[Reaction]]:
    """The reactions of each table that can change, in the order in which they must happen."""
    found: dict[str, list[Reaction]] = {}
    for indicator, holder in holders(root):
        alias = indicator.indicates
        if alias is not None and alias in changing:
            path = _path(root, alias, indicator, holder, kept)
            found.setdefault(alias, []).append(Reaction(indicator, path))
    return found


def delta_path(root: View, alias: str, kept: dict[str, str]) -> Path:
    """The path of one occurrence."""
    view = next(each for each in root.walk() if each.is_leaf and alias in each.relations)
    return _path(root, alias, view, parents(root).get(view.name), kept)


def filling_path(root: View, alias: str, kept: dict[str, str], changing: frozenset[str]) -> Path:
    """The path of a table that never changes, fed before those that do: it ends where it meets one
    of them, which is empty."""
    view = next(each for each in root.walk() if each.is_leaf and alias in each.relations)
    return _path(root, alias, view, parents(root).get(view.name), kept, changing)


def _path(
    root: View, alias: str, view: View, parent: View | None, kept: dict[str, str],
    empty: frozenset[str] = frozenset(),
) -> Path:  # fmt: skip
    above = parents(root)
    known = set(view.keys)
    steps: list[Step] = []
    while True:
        joined = () if parent is None else (*parent.children, *parent.indicators)
        siblings = [each for each in joined if each is not view]
        is_stored = view.name in kept and view.indicates is None
        if any(each.relations & empty for each in siblings):
            return Path(alias, (*steps, Step(view, is_stored, ())))
        visits = order_visits(siblings, known)
        if parent is not None and parent.indicators:
            visits = _with_rivals(visits, known)
        steps.append(Step(view, is_stored, visits))
        if parent is None:
            return Path(alias, tuple(steps))
        known |= {key for sibling in siblings for key in sibling.keys}
        view, parent = parent, above.get(parent.name)


def order_visits(siblings: list[View], known: set[str]) -> tuple[Visit, ...]:
    """Order the siblings: the one with the fewest unknown key variables is always next."""
    known, open_, visits = set(known), list(siblings), []
    while open_:
        view = min(open_, key=lambda each: len(set(each.keys) - known))
        open_.remove(view)
        visits.append(Visit(view, tuple(key for key in view.keys if key in known)))
        known |= set(view.keys)
    return tuple(visits)


def _with_rivals(visits: tuple[Visit, ...], known: set[str]) -> tuple[Visit, ...]:
    """In a cycle two views may make the same keys known: then the shorter list is the better one.

    That is what bounds a bulk of changes by N^(3/2) for triangles, however skewed the graph is.
    """
    known, found = set(known), []
    for i, visit in enumerate(visits):
        lacking = set(visit.view.keys) - known
        others = [
            v.view for v in visits[i + 1 :] if lacking and set(v.view.keys) - known == lacking
        ]
        if others:
            bound = tuple(key for key in others[0].keys if key in known)
            visit = replace(visit, rival=Visit(others[0], bound))
        found.append(visit)
        known |= set(visit.view.keys)
    return tuple(found)

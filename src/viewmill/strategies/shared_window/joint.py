"""Plan all windows of a lane together: which of them share a tree, and how trees answer.

takes  windows, which of them are followed, what was asked for, what the lane offers to techniques,
       rows per unit
gives  `WindowsPlan`: the cheapest of WeaveShare and TriWeave with each technique that applies

Ω is that of the store (`cost.STORED`): partials are kept so that any stretch of them can be asked
for at any time. A view that is followed answers at each of its slides, any other at most once per
batch, when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.windows import SlidingWindow
from viewmill.program.windows import Asked, TreePlan, WindowsPlan
from viewmill.strategies.shared_window.cost import STORED, WORST, Omega, Windows
from viewmill.strategies.shared_window.edges import edge_rate, without_contained
from viewmill.strategies.shared_window.queries import Progression
from viewmill.strategies.shared_window.rates import pause, rows_per_unit
from viewmill.strategies.shared_window.techniques import FOR_ONE, applicable, why_not
from viewmill.strategies.shared_window.weave import Tree, weave_trees

_MOST_TREES = 48  # to start from: more of them are first joined by their slides

Array = npt.NDArray[Any]


def plan_windows(
    windows: Sequence[SlidingWindow],
    followed: Sequence[bool],
    asked: Asked,
    offers: frozenset[str],
    rate: float | None,
) -> WindowsPlan:
    """The cheapest plan for these windows."""
    rows = rows_per_unit(windows[0], rate)
    omegas = WORST if asked.worst and asked.technique is None else STORED
    names = [asked.technique] if asked.technique is not None else applicable(offers)
    together, apart = _groups(windows, followed, rows), _groups(windows, followed, rows, True)
    found: list[_Offer] = []
    for name in (each for each in names if each in omegas):
        if name not in FOR_ONE:
            found += _woven(name, _first_trees(together, omegas[name]), rows)
        elif not asked.every and (len(apart) <= _MOST_TREES or asked.technique is not None):
            found += _one_by_one(name, [_tree(each, omegas[name]) for each in apart], rows)
    best = min(found, key=lambda each: each.cost)
    why = [each.words for each in sorted(found, key=lambda each: each.cost)]
    why += _reasons(asked, offers)
    groups = apart if best.technique in FOR_ONE else together
    return WindowsPlan(_placed(best, groups), best.optimizer, best.cost, tuple(why))


def _reasons(asked: Asked, offers: frozenset[str]) -> list[str]:
    if asked.technique is not None:
        return [f"{asked.technique} was asked for"]
    if asked.worst:
        said = ", ".join(each for each in STORED if each not in WORST)
        worst = f"LATENCY(worst) was asked for: no {said}, whose slowest slide costs the window"
        return [worst, *why_not(offers)]
    return why_not(offers)


def _woven(name: str, first: list[Tree], rows: float) -> list[_Offer]:
    """Trees joined where that is cheaper, by both optimizers."""
    shared = float(edge_rate(frozenset().union(*(each.progressions for each in first))))
    alone, fed = weave_trees(first, rows), weave_trees(first, shared)
    return [_alone(name, alone, rows), _fed(name, fed, rows, shared)]


def _one_by_one(name: str, trees: list[Tree], rows: float) -> list[_Offer]:
    """One tree per window, for techniques that keep a single window."""
    shared = float(edge_rate(frozenset().union(*(each.progressions for each in trees))))
    return [_alone(name, trees, rows), _fed(name, trees, rows, shared)]


def _alone(name: str, trees: list[Tree], rows: float) -> _Offer:
    cost = len(trees) * rows + sum(each.finishing for each in trees)
    return _Offer(cost / rows, name, "weaveshare", trees)


def _fed(name: str, trees: list[Tree], rows: float, shared: float) -> _Offer:
    cost = rows + sum(shared + each.finishing for each in trees)
    return _Offer(cost / rows, name, "triweave", trees)


@dataclass(frozen=True)
class _Offer:
    cost: float
    technique: str
    optimizer: str
    trees: list[Tree]

    @property
    def words(self) -> str:
        count = len(self.trees)
        trees = "1 tree" if count == 1 else f"{count} trees"
        return f"{self.technique} by {self.optimizer}: {self.cost:,.4g} operations/row, {trees}"


@dataclass(frozen=True)
class _Group:
    """Windows with the same edges."""

    progressions: frozenset[Progression]
    members: list[int]
    ranges: list[int]
    pauses: list[float]  # between answers

    def joined(self, other: _Group) -> _Group:
        return _Group(
            self.progressions | other.progressions,
            self.members + other.members,
            self.ranges + other.ranges,
            self.pauses + other.pauses,
        )


def _groups(
    windows: Sequence[SlidingWindow],
    followed: Sequence[bool],
    rows: float,
    is_apart: bool = False,
) -> list[_Group]:
    """One for each set of edges: windows with the same edges always share a tree. Or one for each
    range and slide."""
    found: dict[tuple[frozenset[Progression], int], _Group] = {}
    for i, (window, each) in enumerate(zip(windows, followed, strict=True)):
        progressions = frozenset(Progression(*each) for each in window.edges)
        key = progressions, window.size if is_apart else 0
        if key not in found:
            found[key] = _Group(progressions, [], [], [])
        group = found[key]
        group.members.append(i)
        group.ranges.append(window.size)
        group.pauses.append(pause(window, each, rows))
    return list(found.values())


def _first_trees(groups: Sequence[_Group], omega: Omega) -> list[Tree]:
    """Trees to start from; where there are very many, those join first that have edges of others or
    the same slide."""
    if len(groups) > _MOST_TREES:
        groups = _joined_by(groups, _containers(groups))
    if len(groups) > _MOST_TREES:
        groups = _joined_by(groups, [max(e.step for e in g.progressions) for g in groups])
    return [_tree(each, omega) for each in groups]


def _tree(group: _Group, omega: Omega) -> Tree:
    windows = Windows(np.array(group.ranges), np.array(group.pauses))
    return Tree(group.progressions, windows, edge_rate(group.progressions), omega)


def _joined_by(groups: Sequence[_Group], keys: Sequence[Any]) -> list[_Group]:
    found: dict[Any, _Group] = {}
    for group, key in zip(groups, keys, strict=True):
        found[key] = found[key].joined(group) if key in found else group
    return list(found.values())


def _containers(groups: Sequence[_Group]) -> list[int]:
    """For each group the first whose edges are all that it needs; it may be itself."""
    by_rate = sorted(range(len(groups)), key=lambda i: -edge_rate(groups[i].progressions))
    kept: list[int] = []
    found = [0] * len(groups)
    for i in by_rate:
        needed = groups[i].progressions
        container = next((k for k in kept if _contains(groups[k].progressions, needed)), None)
        if container is None:
            kept.append(i)
        found[i] = i if container is None else container
    return found


def _contains(edges: frozenset[Progression], needed: frozenset[Progression]) -> bool:
    return all(any(edge.contains(each) for edge in edges) for each in needed)


def _placed(offer: _Offer, groups: Sequence[_Group]) -> tuple[TreePlan, ...]:
    """The trees with their windows: each in the tree with fewest edges that has its own."""
    if offer.technique in FOR_ONE:
        return tuple(_placed_alone(offer.technique, each) for each in groups)
    trees = sorted(offer.trees, key=lambda tree: tree.rate)
    steps = [without_contained(tree.progressions) for tree in trees]
    members: list[list[int]] = [[] for _ in trees]
    for group in groups:
        fits = (i for i, own in enumerate(steps) if _contains(frozenset(own), group.progressions))
        members[next(fits)] += group.members
    return tuple(
        TreePlan(_steps(own), offer.technique, tuple(inside))
        for own, inside in zip(steps, members, strict=True)
        if inside
    )


def _placed_alone(technique: str, group: _Group) -> TreePlan:
    own = without_contained(group.progressions)
    window = group.ranges[0], max(each.step for each in group.progressions)
    return TreePlan(_steps(own), technique, tuple(group.members), window)


def _steps(own: Iterable[Progression]) -> tuple[tuple[int, int], ...]:
    return tuple((each.step, each.offset % each.step) for each in own)

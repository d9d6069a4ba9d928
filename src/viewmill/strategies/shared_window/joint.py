"""Plan all windows of a lane together: which of them share a tree, and how trees answer.

takes  windows, which of them are followed, the technique that was asked for, whether what is kept
       has an inverse, rows per unit
gives  `WindowsPlan`: the cheapest of WeaveShare and TriWeave with each technique that applies

Ω is that of the store (`cost.STORED`): partials are kept so that any stretch of them can be asked
for at any time. A view that is followed answers at each of its slides, any other at most once per
batch, when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.windows import SlidingWindow
from viewmill.program.windows import TreePlan, WindowsPlan
from viewmill.strategies.shared_window.cost import STORED, Omega, Windows
from viewmill.strategies.shared_window.edges import edge_rate, without_contained
from viewmill.strategies.shared_window.queries import Progression, WindowQuery, pairs
from viewmill.strategies.shared_window.weave import Tree, weave_trees

TECHNIQUES = tuple(STORED)
_PER_MICROSECOND = 1e-3  # rows, where nothing is known of a stream
_BATCH = 1000  # rows after which a view that nobody follows is read, at most
_MOST_TREES = 48  # to start from: more of them are first joined by their slides

Array = npt.NDArray[Any]


def plan_windows(
    windows: Sequence[SlidingWindow],
    followed: Sequence[bool],
    technique: str | None,
    has_inverse: bool,
    rate: float | None,
) -> WindowsPlan:
    """The cheapest plan for these windows."""
    usual = 1.0 if windows[0].unit == "rows" else _PER_MICROSECOND
    rows = usual if rate is None else rate
    groups = _groups(windows, followed, _BATCH / rows)
    techniques = [technique] if technique is not None else applicable(has_inverse)
    offers = []
    for name in techniques:
        first = _first_trees(groups, STORED[name])
        shared = float(edge_rate(frozenset().union(*(each.progressions for each in first))))
        alone, fed = weave_trees(first, rows), weave_trees(first, shared)
        cost_alone = len(alone) * rows + sum(each.finishing for each in alone)
        cost_fed = rows + sum(shared + each.finishing for each in fed)
        offers.append(_Offer(cost_alone / rows, name, "weaveshare", alone))
        offers.append(_Offer(cost_fed / rows, name, "triweave", fed))
    best = min(offers, key=lambda each: each.cost)
    why = [each.words for each in sorted(offers, key=lambda each: each.cost)]
    if technique is not None:
        why.append(f"{technique} was asked for")
    elif not has_inverse:
        why.append("slickdeque_inv does not apply: not all that is kept has an inverse")
    trees = _placed(best, groups)
    return WindowsPlan(trees, best.optimizer, best.cost, tuple(why))


def applicable(has_inverse: bool) -> list[str]:
    """The techniques that a lane can use."""
    return [each for each in TECHNIQUES if has_inverse or each != "slickdeque_inv"]


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
    windows: Sequence[SlidingWindow], followed: Sequence[bool], batch: float
) -> list[_Group]:
    """One for each slide and offset: those share all edges and always weave (ERRATA W7)."""
    found: dict[tuple[int, int], _Group] = {}
    for i, (window, each) in enumerate(zip(windows, followed, strict=True)):
        key = window.slide, -window.size % window.slide
        if key not in found:
            progressions = frozenset(pairs(WindowQuery(window.size, window.slide)))
            found[key] = _Group(progressions, [], [], [])
        group = found[key]
        group.members.append(i)
        group.ranges.append(window.size)
        group.pauses.append(window.slide if each else max(window.slide, batch))
    return list(found.values())


def _first_trees(groups: Sequence[_Group], omega: Omega) -> list[Tree]:
    """Trees to start from; where there are very many, those join first that have edges of others or
    the same slide."""
    if len(groups) > _MOST_TREES:
        groups = _joined_by(groups, _containers(groups))
    if len(groups) > _MOST_TREES:
        groups = _joined_by(groups, [max(e.step for e in g.progressions) for g in groups])
    return [
        Tree(
            each.progressions,
            Windows(np.array(each.ranges), np.array(each.pauses)),
            edge_rate(each.progressions),
            omega,
        )
        for each in groups
    ]


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
    trees = sorted(offer.trees, key=lambda tree: tree.rate)
    steps = [without_contained(tree.progressions) for tree in trees]
    members: list[list[int]] = [[] for _ in trees]
    for group in groups:
        fits = (i for i, own in enumerate(steps) if _contains(frozenset(own), group.progressions))
        members[next(fits)] += group.members
    return tuple(
        TreePlan(tuple((e.step, e.offset % e.step) for e in own), offer.technique, tuple(inside))
        for own, inside in zip(steps, members, strict=True)
        if inside
    )

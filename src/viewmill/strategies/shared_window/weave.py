"""Which windows share a tree: WeaveShare and TriWeave.

takes  windows, the rows per unit, a technique's Ω
gives  a Weave: trees whose windows share partials and final aggregation, and what they cost

Both start from one tree for each slide and offset, because those share all edges and always weave,
and join the two trees that save most until none do.

WeaveShare   C = m λ + Σ E_i Ω_i             each tree reads every row: formula (1)
TriWeave     C = λ + Σ (E_all + E_i Ω_i)     rows are read once; trees read partials
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, count
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.strategies.shared_window.cost import Omega, Windows
from viewmill.strategies.shared_window.edges import edge_rate
from viewmill.strategies.shared_window.queries import PARTIALS, Progression, WindowQuery

Array = npt.NDArray[Any]
EdgeRate = Callable[[frozenset[Progression]], Fraction]


@dataclass(frozen=True, eq=False)
class Tree:
    """Windows that share partials: an edge of one is an edge of all."""

    progressions: frozenset[Progression]
    windows: Windows
    rate: Fraction  # edges per unit
    omega: Omega

    @cached_property
    def finishing(self) -> float:
        """Final aggregation per unit: E Ω."""
        return float(self.rate) * self.omega(self.windows, self.rate)


@dataclass(frozen=True, eq=False)
class Weave:
    """Trees, and the cost of running them."""

    trees: tuple[Tree, ...]
    cost: float


def weave_share(
    queries: Iterable[WindowQuery] | Windows,
    *,
    omega: Omega,
    rows: float = 1.0,
    partials: str = "pairs",
    rate: EdgeRate = edge_rate,
) -> Weave:
    """Trees that each aggregate the rows for themselves."""
    trees = weave_trees(_first_trees(queries, omega, partials, rate), rows, rate)
    return Weave(tuple(trees), len(trees) * rows + sum(each.finishing for each in trees))


def tri_weave(
    queries: Iterable[WindowQuery] | Windows,
    *,
    omega: Omega,
    rows: float = 1.0,
    partials: str = "pairs",
    rate: EdgeRate = edge_rate,
) -> Weave:
    """Trees fed with the partials of one composite slide for all."""
    first = _first_trees(queries, omega, partials, rate)
    shared = float(rate(frozenset().union(*(each.progressions for each in first))))
    trees = weave_trees(first, shared, rate)
    return Weave(tuple(trees), rows + sum(shared + each.finishing for each in trees))


OPTIMIZERS = {"weaveshare": weave_share, "triweave": tri_weave}


def _first_trees(
    queries: Iterable[WindowQuery] | Windows, omega: Omega, partials: str, rate: EdgeRate
) -> list[Tree]:
    """The initial trees: one for each slide and offset."""
    if not isinstance(queries, Windows):
        pairs = np.array([(each.range, each.slide) for each in queries], np.int64)
        queries = Windows.of(pairs[:, 0], pairs[:, 1])
    offsets = -queries.ranges % queries.slides
    groups, which = np.unique(np.stack([queries.slides, offsets]), axis=1, return_inverse=True)
    order = np.argsort(which, kind="stable")
    borders = np.cumsum(np.bincount(which))[:-1]
    trees = []
    for members in np.split(order, borders):
        windows = Windows(queries.ranges[members], queries.slides[members])
        example = WindowQuery(int(windows.ranges[0]), int(windows.slides[0]))
        progressions = frozenset(PARTIALS[partials](example))
        trees.append(Tree(progressions, windows, rate(progressions), omega))
    assert len(trees) == groups.shape[1]
    return trees


def weave_trees(trees: list[Tree], saved: float, rate: EdgeRate = edge_rate) -> list[Tree]:
    """Join the best pair until no pair is better joined; a tree less saves `saved` per unit."""
    alive, numbers = dict(enumerate(trees)), count(len(trees))
    offers: list[tuple[float, int, int, Tree]] = []

    def offer(i: int, j: int) -> None:
        joined = _joined(alive[i], alive[j], rate)
        gain = saved + alive[i].finishing + alive[j].finishing - joined.finishing
        if gain > 0:
            heapq.heappush(offers, (-gain, i, j, joined))

    for i, j in combinations(list(alive), 2):
        offer(i, j)
    while offers:
        _, i, j, joined = heapq.heappop(offers)
        if i not in alive or j not in alive:
            continue
        del alive[i], alive[j]
        others, new = list(alive), next(numbers)
        alive[new] = joined
        for other in others:
            offer(other, new)
    return list(alive.values())


def _joined(left: Tree, right: Tree, rate: EdgeRate) -> Tree:
    progressions = left.progressions | right.progressions
    windows = left.windows.joined(right.windows)
    return Tree(progressions, windows, rate(progressions), left.omega)

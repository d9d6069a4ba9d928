"""Which windows share a tree: the search of WeaveShare and TriWeave.

takes  the first trees, what a tree less saves, a technique's Ω
gives  trees whose windows share partials and final aggregation

The two trees that save most are joined until none do.

WeaveShare   C = m λ + Σ E_i Ω_i             each tree reads every row: formula (1)
TriWeave     C = λ + Σ (E_all + E_i Ω_i)     rows are read once; trees read partials
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, count

from viewmill.strategies.shared_window.cost import Omega, Windows
from viewmill.strategies.shared_window.edges import edge_rate
from viewmill.strategies.shared_window.queries import Progression

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

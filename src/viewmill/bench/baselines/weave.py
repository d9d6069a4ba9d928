"""The paper's optimizers WeaveShare and TriWeave over all windows of a stream at once.

takes  windows, the rows per unit, a technique's Ω
gives  a Weave: trees whose windows share partials and final aggregation, and what they cost

Both start from one tree for each slide and offset, because those share all edges and always weave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm

import numpy as np

from viewmill.errors import InvalidArgument
from viewmill.strategies.shared_window.cost import Omega, Windows
from viewmill.strategies.shared_window.edges import edge_rate
from viewmill.strategies.shared_window.queries import PARTIALS, Progression, WindowQuery
from viewmill.strategies.shared_window.weave import EdgeRate, Tree, weave_trees

LONGEST_BIT_SET = 2**30


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


def composite_slide(progressions: Iterable[Progression]) -> int:
    """The period after which all edges repeat: the least common multiple of the steps."""
    return lcm(*(each.step for each in progressions))


def count_edges(progressions: Iterable[Progression]) -> int:
    """Edges of the composite slide by marking each: the Bit Set technique."""
    progressions = list(progressions)
    length = composite_slide(progressions)
    if length > LONGEST_BIT_SET:
        raise InvalidArgument(f"a composite slide of {length:,} is too long to mark its edges")
    marked = np.zeros(length, np.bool_)
    for each in progressions:
        marked[each.offset % each.step :: each.step] = True
    return int(np.count_nonzero(marked))

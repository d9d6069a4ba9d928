"""Plan all windows of a lane together: which of them share a tree, and how trees answer.

takes  windows, the technique that was asked for, whether what is kept has an inverse, rows per unit
gives  `WindowsPlan`: the cheapest of WeaveShare and TriWeave with each technique that applies

Costs are the corrected ones. Techniques that can answer any stretch of partials at any time are
considered, for an answer is computed when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewmill.algebra.windows import SlidingWindow
from viewmill.program.windows import TreePlan, WindowsPlan
from viewmill.strategies.shared_window.cost import CORRECTED, Windows
from viewmill.strategies.shared_window.edges import without_contained
from viewmill.strategies.shared_window.weave import OPTIMIZERS, Weave

TECHNIQUES = ("slickdeque_inv", "flatfat", "naive")
_NEEDS = {"slickdeque_inv": "inverse"}
_PER_MICROSECOND = 1e-3  # rows, where nothing is known of a stream


def plan_windows(
    windows: Sequence[SlidingWindow],
    technique: str | None,
    has_inverse: bool,
    rate: float | None,
) -> WindowsPlan:
    """The cheapest plan for these windows."""
    pairs = np.array([(each.size, each.slide) for each in windows], np.int64)
    unique = Windows.of(pairs[:, 0], pairs[:, 1])
    usual = 1.0 if windows[0].unit == "rows" else _PER_MICROSECOND
    rows = usual if rate is None else rate
    techniques = [technique] if technique is not None else applicable(has_inverse)
    offers: list[tuple[float, int, str, str, Weave]] = []
    for name in techniques:
        for optimizer, weave in OPTIMIZERS.items():
            made = weave(unique, omega=CORRECTED[name], rows=rows)
            offers.append((made.cost, len(offers), name, optimizer, made))
    cost, _, best, optimizer, chosen = min(offers)
    why = [
        f"{name} by {by}: {own:,.4g} operations per row in {len(made.trees)} trees"
        for own, _, name, by, made in sorted(offers)
        for own in [own / rows]
    ]
    if technique is not None:
        why.append(f"{technique} was asked for")
    return WindowsPlan(_trees(chosen, pairs, best), optimizer, cost / rows, tuple(why))


def applicable(has_inverse: bool) -> list[str]:
    """The techniques that a lane can use."""
    return [each for each in TECHNIQUES if has_inverse or each not in _NEEDS]


def _trees(weave: Weave, pairs: np.ndarray, technique: str) -> tuple[TreePlan, ...]:
    """The trees with the windows that they were made for."""
    places: dict[tuple[int, int], list[int]] = {}
    for i, (size, slide) in enumerate(pairs.tolist()):
        places.setdefault((size, slide), []).append(i)
    trees = []
    for tree in weave.trees:
        own = zip(tree.windows.ranges.tolist(), tree.windows.slides.tolist(), strict=True)
        members = tuple(i for pair in own for i in places[pair])
        steps = tuple((e.step, e.offset % e.step) for e in without_contained(tree.progressions))
        trees.append(TreePlan(steps, technique, members))
    return tuple(trees)

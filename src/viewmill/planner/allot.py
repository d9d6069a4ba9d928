"""Divide one memory budget between views so that the total refresh cost is smallest.

takes  for each view its operators and its own limit, the total budget
gives  a `Selection` for each
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

import numpy as np

from viewmill.planner.operators import Operator
from viewmill.planner.recycler import recycle
from viewmill.planner.select_states import (
    Curves,
    Selection,
    cost_of,
    full_cost,
    least_sums,
    reasons,
    select_states,
)

Selector = OneOf["dynamic", "recycler", "rebatch", "everything"]


@dataclass(frozen=True)
class Claim:
    """A view that competes for memory."""

    root: Operator
    limit: int | None = None
    used: Mapping[str, int] = field(default_factory=dict)  # refreshes that needed each state
    selector: Selector = "dynamic"

    @property
    def all_bytes(self) -> int:
        """The size of all its states."""
        return sum(each.bytes for op in self.root.walk() for each in op.holdings)


def allot(claims: Sequence[Claim], budget: int | None) -> list[Selection]:
    """Select states for all views; a view with its own limit never exceeds it."""
    if budget is None or len(claims) == 1:
        return [select(claim, _least(claim.limit, budget)) for claim in claims]
    curves = [Curves(claim.root, budget) for claim in claims]
    unit = curves[0].unit
    costs = []
    for claim, curve in zip(claims, curves, strict=True):
        cost = curve.costs()
        if claim.limit is not None:
            cost = cost.copy()
            top = min(len(cost) - 1, claim.limit // unit)
            cost[top:] = cost[top]
        costs.append(cost)
    totals = [costs[0]]
    for cost in costs[1:]:
        totals.append(least_sums(totals[-1], cost))
    shares = [0] * len(claims)
    rest = len(costs[0]) - 1
    for i in range(len(claims) - 1, 0, -1):
        split = int(np.argmin(totals[i - 1][: rest + 1] + costs[i][rest::-1]))
        shares[i], rest = rest - split, split
    shares[0] = rest
    return [
        select(claim, _least(claim.limit, share * unit))
        for claim, share in zip(claims, shares, strict=True)
    ]


def select(claim: Claim, budget: int) -> Selection:
    """The selection by the view's own selector."""
    return SELECTORS[claim.selector](claim, budget)


def _least(*limits: int | None) -> int:
    known = [each for each in limits if each is not None]
    assert known, "a view without any limit is in no budget"
    return min(known)


def _dynamic(claim: Claim, budget: int) -> Selection:
    return select_states(claim.root, budget)


def _recycler(claim: Claim, budget: int) -> Selection:
    return recycle(claim.root, budget, claim.used)


def _rebatch(claim: Claim, budget: int) -> Selection:
    return _fixed(claim, budget, keep=False)


def _everything(claim: Claim, budget: int) -> Selection:
    return _fixed(claim, budget, keep=claim.all_bytes <= budget)


def _fixed(claim: Claim, budget: int, *, keep: bool) -> Selection:
    names = [each.name for op in claim.root.walk() for each in op.holdings]
    kept = frozenset(names if keep else ())
    size = claim.all_bytes if keep else 0
    cost = cost_of(claim.root, kept) if keep else full_cost(claim.root)
    mode: OneOf["incremental", "full"] = "incremental" if keep else "full"
    return Selection(kept, mode, cost, size, budget, reasons(claim.root, kept, mode, budget))


SELECTORS: dict[Selector, Callable[[Claim, int], Selection]] = {
    "dynamic": _dynamic,
    "recycler": _recycler,
    "rebatch": _rebatch,
    "everything": _everything,
}

"""Choose the states to keep in a memory budget: the dynamic program of intermittent processing.

takes  a tree of operators with their costs, a budget in bytes
gives  `Selection`: what to keep, whether the next delta is taken incrementally or in full, the cost

For each operator and each amount of memory m there are two costs: D(m) to produce the delta of its
result, F(m) to produce its full result. Each operator has a few actions (keep a state or not), and
each action requires either the D or the F of the children. Memory is divided into at most 512
units and sizes are rounded up, so a selection never exceeds the budget.

D and F are decreasing step functions of m with few steps. So a sum over two children is computed at
the ends of an interval of m and inside it only if those differ (section 5 of the paper), and the
minimum over all splits of m tries only the steps of one child.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt

from viewmill.planner.operators import Holding, Operator

UNITS = 512

Curve = npt.NDArray[np.float64]  # a cost for each number of units
Mode = OneOf["incremental", "full"]


@dataclass(frozen=True)
class Selection:
    """The states to keep until the next delta, and the estimated cost of that delta."""

    kept: frozenset[str]
    mode: Mode
    cost_us: float
    bytes: int
    budget: int
    why: dict[str, str]  # for every state: why it is kept or not


@dataclass(frozen=True)
class _Action:
    """One alternative for one side of an operator: states to keep, and what it needs below."""

    kept: tuple[Holding, ...]
    cost: float
    child: Operator | None = None
    asks: str = "D"  # the child's D or F


class Curves:
    """D and F of every operator of a tree, for all amounts of memory up to a budget."""

    def __init__(self, root: Operator, budget: int, units: int = UNITS) -> None:
        self.root, self.budget = root, budget
        self.unit = max(1, -(-budget // max(1, units)))
        self._units = min(units, budget // self.unit)
        self._memo: dict[tuple[int, str], list[Curve]] = {}
        self._full = full_cost(root)

    def costs(self) -> Curve:
        """The least cost of the next delta for each number of units."""
        return np.minimum(self._curve(self.root, "D"), self._full)

    def select(self, budget: int | None = None) -> Selection:
        """The best selection for the budget, or for a smaller one."""
        budget = self.budget if budget is None else min(budget, self.budget)
        m = min(self._units, budget // self.unit)
        cost = float(self._curve(self.root, "D")[m])
        kept: list[Holding] = []
        mode: Mode = "incremental" if cost <= self._full else "full"
        if mode == "incremental":
            self._collect(self.root, "D", m, kept)
        names = frozenset(each.name for each in kept)
        why = reasons(self.root, names, mode, budget)
        size = sum(each.bytes for each in kept)
        return Selection(names, mode, min(cost, self._full), size, budget, why)

    def _curve(self, op: Operator, wanted: str) -> Curve:
        return self._totals(op, wanted)[-1]

    def _totals(self, op: Operator, wanted: str) -> list[Curve]:
        """Cumulative costs: of the operator alone, with its first side, with the first two, ..."""
        known = self._memo.get((id(op), wanted))
        if known is None:
            own, sides = actions(op, wanted)
            known = [np.full(self._units + 1, own)]
            for side in sides:
                known.append(least_sums(known[-1], self._side(side)))
            self._memo[id(op), wanted] = known
        return known

    def _side(self, side: list[_Action]) -> Curve:
        curves = [self._action(each) for each in side]
        return curves[0] if len(curves) == 1 else np.asarray(np.minimum.reduce(curves))

    def _action(self, action: _Action) -> Curve:
        """The cost curve of an action, shifted by the memory that its states take."""
        curve = np.full(self._units + 1, action.cost)
        if action.child is not None:
            curve = curve + self._curve(action.child, action.asks)
        units = self._units_of(action)
        if units == 0:
            return curve
        shifted = np.full(len(curve), np.inf)
        shifted[units:] = curve[: max(0, len(curve) - units)]
        return shifted

    def _units_of(self, action: _Action) -> int:
        if self._units == 0 and self.budget > 0:
            return 0
        return sum(-(-each.bytes // self.unit) for each in action.kept)

    def _collect(self, op: Operator, wanted: str, m: int, kept: list[Holding]) -> None:
        """Collect the states that the best selection for m units keeps."""
        _, sides = actions(op, wanted)
        totals = self._totals(op, wanted)
        for i in range(len(sides) - 1, -1, -1):
            curve = self._side(sides[i])
            before = int(np.argmin(totals[i][: m + 1] + curve[m::-1]))
            ours = m - before
            best = min(sides[i], key=lambda each: self._action(each)[ours])
            kept += best.kept
            if best.child is not None:
                self._collect(best.child, best.asks, ours - self._units_of(best), kept)
            m = before


def select_states(root: Operator, budget: int) -> Selection:
    """The best selection of states for a budget."""
    if sum(each.bytes for op in root.walk() for each in op.holdings) <= budget:
        return Curves(root, budget, units=0).select()  # every selection fits
    return Curves(root, budget).select()


def actions(op: Operator, wanted: str) -> tuple[float, list[list[_Action]]]:
    """The fixed cost of the delta (D) or the full result (F), and the actions of each side."""
    if wanted == "D" and op.delta == 0:
        return 0.0, [_read_by_others(op, each) for each in op.holdings if each.needed]
    if wanted == "F" and op.bulk_us is not None:
        return op.bulk_us, [[_Action((), 0.0, op, "D")]]  # the old rows in bulk, then the delta
    own = op.full_us if wanted == "F" else op.delta_us
    match op.kind:
        case "scan":
            return own, []
        case "join":
            return own, [_side_actions(op, i, wanted) for i in range(len(op.children))]
        case _:
            return 0.0, [_unary_actions(op, wanted)]


def _read_by_others(op: Operator, holding: Holding) -> list[_Action]:
    """The actions for a table that only deltas of other sources read; it has no delta itself."""
    child = op.children[holding.side]
    return [
        _Action((holding,), _upkeep(holding)),
        _Action((), op.full_us + holding.load_us, child, "F"),
    ]


def _unary_actions(op: Operator, wanted: str) -> list[_Action]:
    """Actions 1 to 5 of the paper.

    Materialize and sort pass deltas on; an aggregate whose table is not kept recomputes it.
    """
    (child,) = op.children
    if wanted == "F":
        found = [_Action((), op.full_us, child, "F")]
    elif op.kind == "aggregate":
        again = sum(each.load_us for each in op.holdings if each.needed)
        found = [_Action((), op.full_us + again, child, "F")]
    else:
        found = [_Action((), op.delta_us, child, "D")]
    if op.holdings:
        (holding,) = op.holdings
        cost = op.delta_us + _upkeep(holding) + (holding.scan_us if wanted == "F" else 0.0)
        found.append(_Action((holding,), cost, child, "D"))
    return found


def _side_actions(op: Operator, side: int, wanted: str) -> list[_Action]:
    """The actions for one side of a join: each of its tables is kept or not.

    With two sides of one table each, this gives the paper's four join actions (keep none, right,
    left, both). A needed table that is not kept is built from the full result of its side. A side
    without a delta has no cost of its own, and a table that only an empty delta would read is not
    needed.
    """
    child = op.children[side]
    tables = [each for each in op.holdings if each.side == side]
    found = []
    for flags in product((False, True), repeat=len(tables)):
        kept = tuple(each for each, flag in zip(tables, flags, strict=True) if flag)
        away = [e for e, flag in zip(tables, flags, strict=True) if not flag and e.needed]
        cost = sum(_upkeep(each) for each in kept)
        asks = "D"
        if wanted == "D":
            cost += sum(each.load_us for each in away)
            asks = "F" if away else "D"
        elif kept:
            cost += min(each.scan_us for each in kept)
        else:
            asks = "F"
        found.append(_Action(kept, cost, child, asks))
    return found


def _upkeep(holding: Holding) -> float:
    """The cost of keeping a state: of updating it, and of building it if it does not exist."""
    return holding.insert_us + (0.0 if holding.exists else holding.build_us)


def least_sums(first: Curve, second: Curve) -> Curve:
    """For each m the minimum of first(i) + second(j) over i + j <= m; both curves decrease."""
    if first[0] == first[-1]:
        return np.asarray(first[0] + second)
    if second[0] == second[-1]:
        return np.asarray(first + second[0])
    if _steps(first).size > _steps(second).size:
        first, second = second, first
    at = _steps(first)
    values = first[at]
    result = np.full(len(first), np.nan)

    def evaluate(m: npt.NDArray[np.int64]) -> None:
        rest = m[:, None] - at[None, :]
        sums = np.where(rest >= 0, values[None, :] + second[np.maximum(rest, 0)], np.inf)
        result[m] = sums.min(axis=1)

    bisect_steps(evaluate, result)
    return result


def _steps(curve: Curve) -> npt.NDArray[np.int64]:
    """The positions at which a decreasing curve changes."""
    return np.flatnonzero(np.concatenate([[True], curve[1:] != curve[:-1]]))


def bisect_steps(evaluate: Callable[[Any], None], result: Curve) -> None:
    """Fill a decreasing curve by bisection: an interval with equal ends is flat."""
    low, high = np.array([0]), np.array([len(result) - 1])
    evaluate(np.unique(np.concatenate([low, high])))
    while low.size:
        flat = result[low] == result[high]
        for a, b in zip(low[flat], high[flat], strict=True):
            result[a : b + 1] = result[a]
        low, high = low[~flat], high[~flat]
        open_ = high - low > 1
        low, high = low[open_], high[open_]
        if low.size:
            middle = (low + high) // 2
            evaluate(middle)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])


def cost_of(op: Operator, kept: frozenset[str]) -> float:
    """The estimated cost of the next delta when exactly these states are kept."""
    return min(delta_cost(op, kept), full_cost(op))


def delta_cost(op: Operator, kept: frozenset[str]) -> float:
    """The estimated cost of applying the next delta incrementally with these states."""
    return _cost(op, kept, "D")


def full_cost(op: Operator) -> float:
    """The cost of recomputing the result without any state."""
    return _cost(op, frozenset(), "F") if op.bulk_us is None else op.bulk_us


def _cost(op: Operator, kept: frozenset[str], wanted: str) -> float:
    own, sides = actions(op, wanted)
    held = frozenset(each.name for each in op.holdings) & kept
    for side in sides:
        names = {each.name for action in side for each in action.kept}
        fitting = [a for a in side if {each.name for each in a.kept} == held & names]
        own += min(
            a.cost + (0.0 if a.child is None else _cost(a.child, kept, a.asks)) for a in fitting
        )
    return own


def reasons(root: Operator, kept: frozenset[str], mode: Mode, budget: int) -> dict[str, str]:
    """For every state, why it is kept or released."""
    return {
        each.name: _reason(each, each.name in kept, mode, budget)
        for op in root.walk()
        for each in op.holdings
    }


def _reason(holding: Holding, kept: bool, mode: Mode, budget: int) -> str:
    if kept:
        return "kept: a delta that is expected reads it"
    if mode == "full":
        return "released: computing the view again is cheaper than what the budget allows to keep"
    if not holding.needed:
        return "released: no delta that is expected reads it"
    if holding.bytes > budget:
        return "released: larger than the budget; built again when it is needed"
    return "released: other states save more for their size; built again when it is needed"

"""Correct the cost estimates of a view by the measured CPU times of its own refreshes.

takes  CPU times of refreshes and of building states
gives  a `Situation` with costs that would have predicted these times
next   operators, which are built again with these costs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewmill.planner.operators import Costs, Operator, Situation, holding_name
from viewmill.planner.select_states import full_cost

_WEIGHT = 0.5  # of a longer time in the moving average: other load may have delayed the refresh
_LEAST_ROWS = 100  # the time of smaller deltas is mostly call overhead
_MAX_FACTOR = 50.0  # a larger correction means that something else was measured


@dataclass
class Measured:
    """Measured CPU times of a view, relative to the estimates.

    Times of the engine are kept as factors of their estimates, because a query has a fixed cost:
    the time per row of a small table says nothing about a large one.
    """

    full: float | None = None  # factor for recomputing the view
    delta: float | None = None  # microseconds for each changed row
    builds: dict[tuple[str, str], float] = field(default_factory=dict)  # factors, by unit
    is_news: bool = False  # whether there is a first measurement since the last selection
    _is_warm: bool = False  # the time of the first refresh is not representative
    # Microseconds since the last estimate.
    _full_us: float | None = None
    _builds_us: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return self.knows_full or self.delta is not None or bool(self.builds or self._builds_us)

    @property
    def knows_full(self) -> bool:
        """Whether a recomputation of the view was measured."""
        return self.full is not None or self._full_us is not None

    def note_full(self, spent_us: float) -> None:
        """Record the time of a recomputation."""
        self.is_news |= not self.knows_full
        self._full_us = _smoothed(self._full_us, spent_us)

    def note_delta(self, spent_us: float, rows: int) -> None:
        """Record the time of a refresh by triggers, with so many changed rows."""
        if rows >= _LEAST_ROWS and self._is_warm:
            self.is_news |= self.delta is None
            self.delta = _smoothed(self.delta, spent_us / rows)
        self._is_warm = True

    def note_build(self, unit: tuple[str, str], spent_us: float) -> None:
        """Record the time of building a state."""
        self._builds_us[unit] = _smoothed(self._builds_us.get(unit), spent_us)

    def correct(self, situation: Situation, root: Operator) -> Situation:
        """Scale the costs so that the estimates in `root`, made without scaling, come out right."""
        estimates = {
            each.name: each.build_us * situation.deltas
            for op in root.walk()
            for each in op.holdings
        }
        self._compare(full_cost(root), estimates)
        changed = sum(e.rows for e in situation.expected.values() if not e.is_quiet)
        steps = sum(op.delta_us for op in root.walk())
        steps += sum(each.insert_us for op in root.walk() for each in op.holdings)
        apply = 1.0 if self.delta is None else _factor(self.delta * changed, steps)
        builds = {
            unit: factor * estimates[holding_name(*unit)]
            for unit, factor in self.builds.items()
            if holding_name(*unit) in estimates
        }
        costs = _scaled(situation.costs, self.full or 1.0, apply)
        return replace(situation, costs=costs, builds=builds)

    def _compare(self, full_us: float, build_us: Mapping[str, float]) -> None:
        """Turn the recorded times into factors of the estimates for the same work."""
        if self._full_us is not None:
            self.full = _smoothed(self.full, _factor(self._full_us, full_us))
            self._full_us = None
        for unit, spent in self._builds_us.items():
            estimated = build_us.get(holding_name(*unit), 0.0)
            if estimated <= 0:
                continue
            # The first build of a state includes compiling and loading code, which is paid once.
            factor, before = _factor(spent, estimated), self.builds.get(unit)
            self.builds[unit] = min(factor, 1.0) if before is None else _smoothed(before, factor)
        self._builds_us.clear()


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else min(now, before + (now - before) * _WEIGHT)


def _factor(spent: float, estimated: float) -> float:
    if spent <= 0 or estimated <= 0:
        return 1.0
    return min(max(spent / estimated, 1 / _MAX_FACTOR), _MAX_FACTOR)


def _scaled(costs: Costs, engine: float, apply: float) -> Costs:
    return replace(
        costs,
        call=costs.call * engine,
        scan=costs.scan * engine,
        hash=costs.hash * engine,
        apply=costs.apply * apply,
    )

"""What a view's own refreshes have cost, which corrects what is estimated for the next one.

takes  CPU times of refreshes and of states that were built
gives  a `Situation` whose costs would have estimated them right
next   operators, once more
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewmill.planner.operators import Costs, Operator, Situation, holding_name
from viewmill.planner.select_states import full_cost

_WEIGHT = 0.5  # of the last time, if it was longer than those before: much may disturb a refresh
_LEAST_ROWS = 100  # the time of smaller deltas is mostly call overhead
_MAX_FACTOR = 50.0  # a larger correction means that something else was measured


@dataclass
class Measured:
    """CPU times of a view's work against what was estimated for it.

    What the engine did is kept as a factor of its estimate, for a query costs something before its
    first row: times for each row of a small table say nothing of a large one.
    """

    full: float | None = None  # factor of computing the view again
    delta: float | None = None  # microseconds for each changed row
    builds: dict[tuple[str, str], float] = field(default_factory=dict)  # factors, by unit
    is_news: bool = False  # something was measured for the first time since the last selection
    _is_warm: bool = False  # what the first refresh takes says little of the others
    # What was spent since estimates were last made, in microseconds.
    _full_us: float | None = None
    _builds_us: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return self.knows_full or self.delta is not None or bool(self.builds or self._builds_us)

    @property
    def knows_full(self) -> bool:
        """Whether the view was computed again since it was created."""
        return self.full is not None or self._full_us is not None

    def note_full(self, spent_us: float) -> None:
        """The view was computed again."""
        self.is_news |= not self.knows_full
        self._full_us = _smoothed(self._full_us, spent_us)

    def note_delta(self, spent_us: float, rows: int) -> None:
        """So many changed rows went through its triggers."""
        if rows >= _LEAST_ROWS and self._is_warm:
            self.is_news |= self.delta is None
            self.delta = _smoothed(self.delta, spent_us / rows)
        self._is_warm = True

    def note_build(self, unit: tuple[str, str], spent_us: float) -> None:
        """A state was built."""
        self._builds_us[unit] = _smoothed(self._builds_us.get(unit), spent_us)

    def correct(self, situation: Situation, root: Operator) -> Situation:
        """The situation with costs by which `root`, made without them, would have been right."""
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
        """Turn what was spent into factors of what is estimated for the same work."""
        if self._full_us is not None:
            self.full = _smoothed(self.full, _factor(self._full_us, full_us))
            self._full_us = None
        for unit, spent in self._builds_us.items():
            estimated = build_us.get(holding_name(*unit), 0.0)
            if estimated <= 0:
                continue
            # Code is compiled and read when a state is first built: that is not paid again.
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

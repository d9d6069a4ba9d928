"""What a view's own refreshes have cost, which corrects what is estimated for the next one.

takes  CPU times of refreshes and of states that were built
gives  a `Situation` whose costs would have estimated them right
next   operators, once more
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viewmill.planner.operators import Costs, Operator, Situation
from viewmill.planner.select_states import full_cost

_WEIGHT = 0.5  # of the last time, if it was longer than those before: much may disturb a refresh
_LEAST_ROWS = 100  # smaller deltas say more of the call than of the rows
_MOST = 50.0  # times off at most: beyond that something else was measured


@dataclass
class Measured:
    """CPU microseconds, each for a row: read, changed, or held by a state."""

    full: float | None = None
    delta: float | None = None
    builds: dict[tuple[str, str], float] = field(default_factory=dict)
    is_news: bool = False  # something was measured for the first time since the last selection
    _is_warm: bool = False  # what the first refresh takes says little of the others

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return self.full is not None or self.delta is not None or bool(self.builds)

    def note_full(self, spent_us: float, rows: float) -> None:
        """The view was computed again over tables of so many rows."""
        self.is_news |= self.full is None
        self.full = _smoothed(self.full, spent_us / max(rows, 1.0))

    def note_delta(self, spent_us: float, rows: int) -> None:
        """So many changed rows went through its triggers."""
        if rows >= _LEAST_ROWS and self._is_warm:
            self.is_news |= self.delta is None
            self.delta = _smoothed(self.delta, spent_us / rows)
        self._is_warm = True

    def note_build(self, unit: tuple[str, str], spent_us: float, rows: float) -> None:
        """A state was built that now has so many rows."""
        self.builds[unit] = _smoothed(self.builds.get(unit), spent_us / max(rows, 1.0))

    def correct(self, situation: Situation, root: Operator) -> Situation:
        """The situation with costs by which `root`, made without them, would have been right."""
        rows = sum(situation.rows.values())
        engine = _factor(self.full, rows, full_cost(root))
        changed = sum(e.rows for e in situation.expected.values() if not e.is_quiet)
        steps = sum(op.delta_us for op in root.walk())
        steps += sum(each.insert_us for op in root.walk() for each in op.holdings)
        apply = _factor(self.delta, changed, steps)
        builds = {
            unit: row_us * situation.sizes[unit].rows
            for unit, row_us in self.builds.items()
            if unit in situation.sizes
        }
        return replace(situation, costs=_scaled(situation.costs, engine, apply), builds=builds)


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else min(now, before + (now - before) * _WEIGHT)


def _factor(row_us: float | None, rows: float, estimated: float) -> float:
    if row_us is None or rows <= 0 or estimated <= 0:
        return 1.0
    return min(max(row_us * rows / estimated, 1 / _MOST), _MOST)


def _scaled(costs: Costs, engine: float, apply: float) -> Costs:
    return replace(
        costs,
        call=costs.call * engine,
        scan=costs.scan * engine,
        hash=costs.hash * engine,
        apply=costs.apply * apply,
    )

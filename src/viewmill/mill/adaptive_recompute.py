"""Recompute a view when a change is so large that this is cheaper than running its triggers.

takes  the deltas of tables, the views that read them
gives  for each view that is cheaper to recompute: a function that builds its maintainers anew

New states are built in bulk beside the old ones, which stay untouched: a commit swaps them in, a
rollback drops the new ones. The costs compared are measured: those of the engine by `calibration`,
those of a view's triggers by its refreshes, those of its bulk loads by earlier ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewmill.algebra.relations import Relation, Values
from viewmill.algebra.walk import sources
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed
from viewmill.mill.calibration import EngineSpeed, engine_speed
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import build, fill_blocks
from viewmill.planner.blocks import inline_blocks
from viewmill.program.program import Maintainer, Triggers
from viewmill.program.states import Replay

_NONE: dict[str, Rebuild] = {}
LEAST_ROWS = 10_000  # smaller changes always go through the triggers
_MARGIN = 1.5  # recomputation must be cheaper by this factor, because costs are estimates

Rebuild = Callable[[], list[Maintainer]]


@dataclass(frozen=True)
class RecomputeEstimate:
    """The cost of taking in a change by triggers and by recomputation."""

    engine: EngineSpeed
    row_us: float  # a changed row through the triggers
    is_measured: bool  # whether `row_us` comes from the view's own refreshes
    recompute_us: float  # building all states in bulk

    def is_cheaper_for(self, rows: int) -> bool:
        """Whether recomputation is cheaper for so many changed rows."""
        return self.recompute_us * _MARGIN < self.row_us * rows

    @property
    def break_even_rows(self) -> int:
        """The smallest number of changed rows for which recomputation is chosen."""
        return max(int(self.recompute_us * _MARGIN / self.row_us) + 1, LEAST_ROWS)

    def record(self) -> dict[str, Any]:
        """The estimate as plain data, for EXPLAIN."""
        return {
            "recompute_from_rows": self.break_even_rows,
            "recompute_us": round(self.recompute_us),
            "row_us": round(self.row_us, 4),
            "row_us_is_measured": self.is_measured,
            "engine_start_us": self.engine.start_us,
            "engine_row_us": self.engine.row_us,
        }


def is_adaptive(entry: ViewEntry) -> bool:
    """Whether a view may be recomputed when that is cheaper."""
    return (
        entry.adapts
        and entry.plan.is_incremental
        and entry.budgeted is None
        and all(
            isinstance(block.program.body, Triggers)
            and block.program.body.enumeration is None
            and block.views == {entry.name}
            and not any(isinstance(each.definition, Replay) for each in block.program.states)
            for block in entry.blocks
        )
    )


def rebuilds(core: Core, deltas: Mapping[str, Changed], among: set[str]) -> dict[str, Rebuild]:
    """The views that are cheaper to recompute, each with what builds its new maintainers."""
    for each in deltas.values():
        if each.size >= LEAST_ROWS:
            break
    else:
        return _NONE
    listed = {name: each for name, each in deltas.items() if isinstance(each, Delta)}
    if all(delta.size < LEAST_ROWS for delta in listed.values()):
        return {}
    by_name = {name.lower(): delta.size for name, delta in listed.items()}
    found: dict[str, Rebuild] = {}
    for entry in core.catalog.without_windows():
        rows = sum(by_name.get(name, 0) for name in entry.reads)
        if entry.name not in among or rows < LEAST_ROWS or not is_adaptive(entry):
            continue
        if estimate_recompute(core, entry).is_cheaper_for(rows):
            found[entry.name] = _rebuild(core, entry)
    return found


def estimate_recompute(core: Core, entry: ViewEntry) -> RecomputeEstimate:
    """Estimate both costs for a view, at the present size of its tables."""
    speed = engine_speed(core.engine)
    pace = core.runtime.pace(entry.name)
    rows = sum(_rows_of(core, name) for name in entry.reads)
    if entry.recompute_us is not None:
        recompute_us = entry.recompute_us * rows + speed.start_us * len(_definitions(entry))
    else:
        recompute_us = _estimate(core, entry, speed)
    row_us = entry.plan.cost.row_us if pace is None else pace
    return RecomputeEstimate(speed, max(row_us, 1e-3), pace is not None, recompute_us)


def _estimate(core: Core, entry: ViewEntry, speed: EngineSpeed) -> float:
    """The cost of one query per state over everything it reads, if no bulk load was measured."""
    rows = {name: _rows_of(core, name) for name in set().union(*_state_reads(entry))}
    return sum(speed.query_us(sum(rows[name] for name in read)) for read in _state_reads(entry))


def _state_reads(entry: ViewEntry) -> list[set[str]]:
    """The sources that each state's definition reads, computed once per plan."""
    known = entry.state_reads
    if known is None or known[0] is not entry.plan:
        queries = {block.name: block.query for block in entry.plan.blocks[:-1]}
        reads = [set(sources(inline_blocks(each, queries))) for each in _definitions(entry)]
        known = entry.state_reads = entry.plan, reads
    return known[1]


def _definitions(entry: ViewEntry) -> list[Relation]:
    """The queries that the engine runs to build the states of a view."""
    states = [state for block in entry.plan.blocks for state in block.program.states]
    return [
        state.definition
        for state in states
        if not state.derived and not isinstance(state.definition, Values | Replay)
    ]


def _rows_of(core: Core, name: str) -> int:
    entry = core.catalog.get(name)
    if isinstance(entry, TableEntry):
        return entry.table.rows + entry.table.staged_rows
    return entry.rows if isinstance(entry, ViewEntry) else 0


def _rebuild(core: Core, entry: ViewEntry) -> Rebuild:
    def rebuild() -> list[Maintainer]:
        blocks = [
            replace(each, maintainer=build(core, each.program, entry)) for each in entry.blocks
        ]
        start = time.perf_counter()
        fill_blocks(core, entry, blocks)
        note_bulk(core, entry, (time.perf_counter() - start) * 1e6)
        return [each.maintainer for each in blocks]

    return rebuild


def note_bulk(core: Core, entry: ViewEntry, spent_us: float) -> None:
    """Record the cost of a bulk load per row read; loads of small tables are too noisy."""
    rows = sum(_rows_of(core, name) for name in entry.reads)
    if rows >= LEAST_ROWS:
        starts = engine_speed(core.engine).start_us * len(_definitions(entry))
        entry.recompute_us = max(spent_us - starts, 0.0) / rows

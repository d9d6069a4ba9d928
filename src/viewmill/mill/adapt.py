"""When a change is so large that computing a view again is cheaper, do that instead.

takes  the change of tables, the views that it reaches
gives  for each view that is better computed again: how, for the runtime to do in its turn

The states are built in bulk beside those that are there, which stay untouched: they are exchanged
at commit, and a rollback forgets the new ones. What decides is measured: the engine by
`calibration`, the triggers of a view by its own refreshes, its bulk loads by those before.
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
LEAST_ROWS = 10_000  # smaller changes are never worth a thought
_MARGIN = 1.5  # so much cheaper must it be: estimates are estimates

Rebuild = Callable[[], list[Maintainer]]


@dataclass(frozen=True)
class Prospect:
    """What a change of some rows would cost in both ways."""

    engine: EngineSpeed
    row_us: float  # of a changed row through the triggers
    is_measured: bool  # whether the view's own refreshes said so
    again_us: float  # of computing all states again

    def is_better_again(self, rows: int) -> bool:
        """Whether so many changed rows are cheaper computed again."""
        return self.again_us * _MARGIN < self.row_us * rows

    @property
    def from_rows(self) -> int:
        """From how many changed rows on that is so."""
        return max(int(self.again_us * _MARGIN / self.row_us) + 1, LEAST_ROWS)

    def record(self) -> dict[str, Any]:
        """For explain."""
        return {
            "recompute_from_rows": self.from_rows,
            "recompute_us": round(self.again_us),
            "row_us": round(self.row_us, 4),
            "row_us_is_measured": self.is_measured,
            "engine_start_us": self.engine.start_us,
            "engine_row_us": self.engine.row_us,
        }


def is_adaptive(entry: ViewEntry) -> bool:
    """Whether a view may be computed again when that is cheaper."""
    return (
        entry.adapts
        and entry.plan.is_incremental
        and entry.keeping is None
        and all(
            isinstance(block.program.body, Triggers)
            and block.program.body.enumeration is None
            and block.views == {entry.name}
            and not any(isinstance(each.definition, Replay) for each in block.program.states)
            for block in entry.blocks
        )
    )


def rebuilds(core: Core, deltas: Mapping[str, Changed], among: set[str]) -> dict[str, Rebuild]:
    """The views that are better computed again, and how."""
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
        if prospect(core, entry).is_better_again(rows):
            found[entry.name] = _rebuild(core, entry)
    return found


def prospect(core: Core, entry: ViewEntry) -> Prospect:
    """What is known of the cost of a view, at the present size of its tables."""
    speed = engine_speed(core.engine)
    pace = core.runtime.pace(entry.name)
    rows = sum(_rows_of(core, name) for name in entry.reads)
    if entry.again_us is not None:
        again = entry.again_us * rows + speed.start_us * len(_definitions(entry))
    else:
        again = _estimate(core, entry, speed)
    row_us = entry.plan.cost.row_us if pace is None else pace
    return Prospect(speed, max(row_us, 1e-3), pace is not None, again)


def _estimate(core: Core, entry: ViewEntry, speed: EngineSpeed) -> float:
    """One query for each state, over all that it reads; nothing of it was measured yet."""
    rows = {name: _rows_of(core, name) for name in set().union(*_state_reads(entry))}
    return sum(speed.query_us(sum(rows[name] for name in read)) for read in _state_reads(entry))


def _state_reads(entry: ViewEntry) -> list[set[str]]:
    """What the query for each state reads, found once for a plan."""
    known = entry.state_reads
    if known is None or known[0] is not entry.plan:
        queries = {block.name: block.query for block in entry.plan.blocks[:-1]}
        reads = [set(sources(inline_blocks(each, queries))) for each in _definitions(entry)]
        known = entry.state_reads = entry.plan, reads
    return known[1]


def _definitions(entry: ViewEntry) -> list[Relation]:
    """What the engine is asked to build the states of a view."""
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
    """Remember what building all states cost for each row read; small tables tell nothing."""
    rows = sum(_rows_of(core, name) for name in entry.reads)
    if rows >= LEAST_ROWS:
        starts = engine_speed(core.engine).start_us * len(_definitions(entry))
        entry.again_us = max(spent_us - starts, 0.0) / rows

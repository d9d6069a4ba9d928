"""Families: the immediate window views over one table share their partial aggregates.

takes  the program of a window view
gives  its maintainer, a member of the family of its table; a view that is deferred or has a budget
       is a family of its own
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from typing import Any

from viewmill.deltas.delta import Delta
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.program.program import Program
from viewmill.program.windows import Windowed
from viewmill.strategies.shared_window.joint import plan_windows
from viewmill.strategies.shared_window.lanes import plan_lanes

FAMILY = "viewmill.kernels.window_family:WindowFamily"


def join_family(core: Core, program: Program, entry: ViewEntry) -> Any:
    """Build the maintainer of a window view in the family it belongs to."""
    body = program.body
    assert isinstance(body, Windowed)
    (read,) = program.inputs
    name = next((each.name for each in entry.plan.blocks if each.program is program), entry.name)
    if not entry.is_immediate or entry.budgeted is not None:
        view = _made(core, read.source, entry).add(name, entry.name, program)
        view.followed = True
        return view
    # GROUP BY window shows all windows whatever the watermark, so such views are separate families.
    every = "" if body.every is None else f" by {body.window.column}"
    key = read.source.lower(), body.window.unit + every
    family = core.families.get(key)
    if family is None or not family.views:
        family = core.families[key] = _made(core, read.source)
    return family.add(name, entry.name, program)


def _made(core: Core, source: str, alone: ViewEntry | None = None) -> Any:
    """A new family: of one view that may lag behind its table (`alone`), or a shared one."""
    table = core.catalog.table(source)

    def rows() -> Delta:
        return core.contents(table.name) if alone is None else core.rows_seen(alone, table.name)

    def reached(*, seen: bool) -> int | None:
        if seen and alone is not None:
            return core.watermark_seen(alone, table)
        return core.watermark(table)

    return pkgutil.resolve_name(FAMILY)(
        table.name,
        core.dictionary,
        plan_windows,
        rows,
        reached,
        may_owe=table.table.options.unchecked,
        has_deletes=table.table.may_lose_rows,
        lanes=plan_lanes,
        is_shared=alone is None,
        compiled=False if core.tiers.mode == "off" else None,
    )


def window_of(entry: ViewEntry) -> Any:
    """The maintainer of a view whose last block is a window, else None."""
    maintainer = entry.blocks[-1].maintainer
    return maintainer if maintainer.family is not None else None


def windows_in(entry: ViewEntry) -> list[Any]:
    """The maintainers of a view that are windows."""
    found = [block.maintainer for block in entry.blocks]
    return [each for each in found if each.family is not None]


def leave_families(entry: ViewEntry) -> None:
    """Remove the windows of a view that was built but is not created after all."""
    for window in windows_in(entry):
        window.family.leave(window)


def window_facts(entry: ViewEntry) -> list[dict[str, Any]]:
    """How the windows of a view are computed, for EXPLAIN."""
    return [_facts(window) for window in windows_in(entry)]


def _facts(window: Any) -> dict[str, Any]:
    plan, tree = window.family.plan_of(window), window.tree
    others = window.family.sharing(window)
    return {
        "technique": tree.plan.technique,
        "optimizer": plan.optimizer,
        "trees": len(plan.trees),
        "views": 1 + len(others),
        "shared_with": others,
        "edges": [{"every": step, "offset": offset} for step, offset in tree.edges.steps[:_SHOWN]],
        "formula": _FORMULAS[plan.optimizer],
        "cost": plan.cost,
        "offers": list(plan.why),
        "lane": _lane(window),
        "ranges": len(window.ranges()),
        "components": [type(each).__name__ for each in window.lane.components],
    }


def _lane(window: Any) -> dict[str, Any] | None:
    """The shared work of a lane, if views with other predicates or keys share it."""
    planned = window.planned
    if not planned.is_joined:
        return None
    return {
        "fragments": len(planned.lane.numbers),
        "kinds": len(planned.keys),
        "predicates": planned.lane.spec.predicates,
        "keys": len(planned.lane.spec.keys),
        "why": planned.why,
    }


_SHOWN = 8
_FORMULAS = {
    "weaveshare": "C = m λ + Σ E_i Ω_i: each tree takes every row",
    "triweave": "C = λ + Σ (E_all + E_i Ω_i): rows become partials once, trees take partials",
}


def fill_new_windows(core: Core, tables: Iterable[str]) -> None:
    """Before tables change: fill the windows of new views over them from the present rows."""
    for table in tables:
        for family in core.runtime.families(table):
            family.settle()


def note_followers(core: Core, entry: ViewEntry) -> None:
    """Update whether a view's windows list their changes: only while something follows the view."""
    for window in windows_in(entry):
        if window.family.is_shared:
            block = entry.block.maintainer
            read = window is not block or entry.listeners or core.preparations
            followed = bool(read) or bool(core.catalog.readers(entry.name))
            window.family.follow(window, followed)


def note_readers(core: Core, entry: ViewEntry) -> None:
    """Update the followers of a created or dropped view and of the views that it reads."""
    note_followers(core, entry)
    for name in entry.reads:
        below = core.catalog.get(name)
        if isinstance(below, ViewEntry):
            note_followers(core, below)

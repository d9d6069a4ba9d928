"""Keep the states of views within a memory budget.

takes  views with a budget (MEMORY, or connect(memory=...) for all), the expected arrivals
does   before a refresh: builds the released states that it needs, from the tables as they were, or
       switches the view to recomputation if that is cheaper
       after a refresh: selects the states to keep for the next delta and releases the others
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from viewmill.algebra.clock import WATERMARK
from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.errors import ViewmillError
from viewmill.mill.adaptive_recompute import rebuilds
from viewmill.mill.budgeted_states import BudgetedStates, Unit
from viewmill.mill.calibration import engine_speed
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import (
    build,
    unbuilt_blocks,
)
from viewmill.mill.held_states import (
    build_missing,
    can_rebuild,
    has_negative_rows,
    note_sizes,
    rebuild,
    release,
    sweep,
    switch_to_full,
    switch_to_incremental,
    trim,
    units,
)
from viewmill.mill.size_estimates import estimated_sizes
from viewmill.planner.allot import Claim, allot
from viewmill.planner.operators import (
    Costs,
    Operator,
    Situation,
    holding_name,
    operators_of,
)
from viewmill.planner.select_states import Selection, delta_cost, full_cost, select_states
from viewmill.policies.arrivals import COMPLETE, Expectation
from viewmill.policies.policies import least_rows, span_of
from viewmill.program.program import ByRow, Exploded, MomentParts, Recursive, Triggers
from viewmill.program.uses import units_of, uses_of
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block
from viewmill.strategies.recompute.strategy import Recompute
from viewmill.strategies.strategy import Candidate, Cost

_LOG = logging.getLogger("viewmill")
_TRIM_BYTES = 1 << 20
_UNLIMITED = 1 << 60  # bytes
_NEGLIGIBLE_GROWTH = 100  # rows: a source that grows by so few counts as unchanged in size
_MIN_ROWS_FOR_FULL = 10_000  # a change of fewer rows is never recomputed unless states are missing


# Bodies that a budget releases: single states of triggers, all others with the whole view.
_RELEASED = (Triggers, Windowed, ByRow, Recursive, Exploded, MomentParts)


def attach(core: Core, entry: ViewEntry) -> None:
    """Put a view that is not filled yet under its budget, if it has a budget and states."""
    attach_built(core, entry)
    budgeted = entry.budgeted
    if budgeted is not None and _starts_full(core, entry, budgeted):
        budgeted.mode = "full"  # nothing would be kept: do not build it first
        budgeted.released = {unit for unit, _ in units(budgeted)}
        budgeted.own = unbuilt_blocks(entry.plan)
        entry.blocks = [budgeted.recompute]


def attach_built(core: Core, entry: ViewEntry) -> None:
    """Put a view under its budget with all of its states in memory."""
    if entry.budget is None and core.budget is None:
        return
    bodies = [block.program.body for block in entry.blocks]
    if not all(isinstance(body, _RELEASED) for body in bodies):
        return
    if any(isinstance(body, Triggers) and body.enumeration is not None for body in bodies):
        return  # its states are its rows
    candidate = Candidate(Recompute.name, entry.query, Cost(0, 0, 0), recomputes=True)
    program = Recompute().emit(candidate)
    recompute = Block(entry.name, program, build(core, program, entry), {entry.name})
    entry.budgeted = BudgetedStates(entry.blocks, recompute)
    core.runtime.watch(entry.name)


def _starts_full(core: Core, entry: ViewEntry, budgeted: BudgetedStates) -> bool:
    """Whether a new view starts in mode "full": its budget is 0, or no state is worth building.

    The sizes of the states are not known yet, so a budget above 0 does not limit the selection.
    """
    if 0 in (entry.budget, core.budget) or core.selection != "dynamic":
        return 0 in (entry.budget, core.budget)
    root = _operators(core, entry, budgeted, _expectations(core, entry, core.now()))
    return select_states(root, _UNLIMITED).mode == "full"


# Before a refresh.


_NOTHING = Delta.empty(Schema(()))


def refresh_blocks(core: Core, deltas: Mapping[str, Changed], among: set[str]) -> dict[str, Delta]:
    """Apply deltas of sources to the views in `among`, after building the states they need."""
    deltas = _with_watermarks(core, deltas)
    if not core.catalog.budgeted_views():
        return core.runtime.refresh(deltas, among, rebuilds(core, deltas, among))
    listed = {name: as_delta(each) for name, each in deltas.items()}
    _ensure_all_states(core, listed, among)
    outputs = core.runtime.refresh(deltas, among, rebuilds(core, deltas, among))
    _note_refreshes(core, listed, among)
    return outputs


def _with_watermarks(core: Core, deltas: Mapping[str, Changed]) -> Mapping[str, Changed]:
    """The deltas, and that time has gone on for the tables whose time changes views."""
    watched = core.catalog.watched_tables()
    moved = [name for name in deltas if name.lower() in watched] if watched else []
    return {**deltas, **{f"{WATERMARK}{n.lower()}": _NOTHING for n in moved}} if moved else deltas


def _note_refreshes(core: Core, deltas: Mapping[str, Delta], among: set[str]) -> None:
    """Record the CPU time that the refresh took for each budgeted view."""
    sizes = {name.lower(): delta.size for name, delta in deltas.items()}
    for entry in core.catalog.budgeted_views():
        spent = core.runtime.spent(entry.name) if entry.name in among else 0.0
        if spent:
            assert entry.budgeted is not None
            if entry.budgeted.mode == "full":
                entry.budgeted.measured.note_full(spent)
            else:
                changed = sum(sizes.get(name, 0) for name in entry.reads)
                entry.budgeted.measured.note_delta(spent, changed)


def _ensure_all_states(core: Core, deltas: Mapping[str, Delta], among: set[str]) -> None:
    changed = {name.lower() for name in deltas}
    for entry in core.catalog.in_order():
        if entry.name in among and entry.reads & changed:
            if entry.budgeted is not None:
                _ensure_states(core, entry, entry.budgeted, deltas, changed & entry.reads)
            changed.add(entry.name.lower())


def _ensure_states(
    core: Core,
    entry: ViewEntry,
    budgeted: BudgetedStates,
    deltas: Mapping[str, Delta],
    changed: set[str],
) -> None:
    budgeted.is_touched, budgeted.rebuilt = True, 0
    needed = _needed(budgeted, changed)
    for unit in needed:
        name = holding_name(*unit)
        budgeted.used[name] = budgeted.used.get(name, 0) + 1
    if budgeted.mode == "full":
        return
    missing = needed & budgeted.released
    rows = sum(delta.size for delta in deltas.values())
    must = bool(missing) and not can_rebuild(core, budgeted)
    may = bool(missing) or rows > _MIN_ROWS_FOR_FULL
    if must or (may and _full_is_cheaper(core, entry, budgeted, deltas, changed)):
        switch_to_full(core, entry, budgeted)
    elif missing:
        if not budgeted.measured.knows_full and _is_planned(budgeted, changed):
            _measure_full(budgeted)
        rebuild(core, entry, budgeted, missing, deltas)


def _needed(budgeted: BudgetedStates, changed: set[str]) -> set[Unit]:
    """The units that the triggers for these sources read."""
    changed, found = set(changed), set[Unit]()
    for block in budgeted.own:
        inputs = [each.name for each in block.program.inputs if each.source.lower() in changed]
        if inputs:
            found |= {(block.name, unit) for unit in uses_of(block.program).needed(inputs)}
            changed.add(block.name.lower())
    return found


def _full_is_cheaper(
    core: Core,
    entry: ViewEntry,
    budgeted: BudgetedStates,
    deltas: Mapping[str, Delta],
    changed: set[str],
) -> bool:
    """Whether recomputing, plus rebuilding the states selected for the next delta, is cheaper."""
    expected = dict.fromkeys(entry.reads, COMPLETE)
    sizes = {name.lower(): delta.size for name, delta in deltas.items()}
    for name in changed:
        expected[name] = Expectation(float(sizes.get(name, 0)) or 1.0, deltas=1.0)
    root = _operators(core, entry, budgeted, expected)
    there = {holding_name(*unit) for unit, _ in units(budgeted)}
    there -= {holding_name(*unit) for unit in budgeted.released}
    next_kept = budgeted.selection.kept if budgeted.selection is not None else frozenset(there)
    rebuild_us = sum(
        each.build_us for op in root.walk() for each in op.holdings if each.name in next_kept
    )
    return full_cost(root) + rebuild_us < delta_cost(root, frozenset(there))


def _is_planned(budgeted: BudgetedStates, changed: set[str]) -> bool:
    """Whether these changes were expected, so that the same states will be missing each time."""
    known = budgeted.planned_for
    return all(name in known and not known[name].is_quiet for name in changed)


def _measure_full(budgeted: BudgetedStates) -> None:
    """Run the view's query once, only to measure its CPU time.

    Rebuilding states at each delta may cost more than recomputing the view, and until the query
    has run its cost is only an estimate.
    """
    start = time.process_time_ns()
    budgeted.recompute.maintainer.flush()
    budgeted.recompute.maintainer.rollback()
    budgeted.measured.note_full((time.process_time_ns() - start) / 1e3)


# After a refresh.


def release_states(core: Core) -> None:
    """Select the states of the budgeted views for the next deltas and release the others."""
    views = core.catalog.budgeted_views()
    if not views or core.is_releasing_states:
        return
    core.is_releasing_states = True
    try:
        _release_states(core, views)
    finally:
        core.is_releasing_states = False


def _release_states(core: Core, views: list[ViewEntry]) -> None:
    now = core.now()
    expected = {entry.name: _expectations(core, entry, now) for entry in views}
    for entry in views:
        assert entry.budgeted is not None
        sweep(entry.budgeted)
    due = [entry for entry in views if _is_due(core, entry, expected[entry.name])]
    if not due:
        return
    if core.budget is None:  # each has its own
        views = due
    before = sum(entry.kept_bytes() for entry in views)
    _select(core, views, expected)
    if before - sum(entry.kept_bytes() for entry in views) > _TRIM_BYTES:
        trim()


def _is_due(core: Core, entry: ViewEntry, expected: Mapping[str, Expectation]) -> bool:
    budgeted = entry.budgeted
    assert budgeted is not None
    if budgeted.selection is None or entry.kept_bytes() > budgeted.selection.budget:
        return True
    if budgeted.measured.is_news:
        return True
    known = budgeted.planned_for
    if not all(name in known and each.is_like(known[name]) for name, each in expected.items()):
        return True
    if not all(_is_as_large(core, name, rows) for name, rows in budgeted.planned_rows.items()):
        return True
    kept = {holding_name(*unit) for unit, _ in units(budgeted)}
    kept -= {holding_name(*unit) for unit in budgeted.released}
    return kept != budgeted.selection.kept and not entry.waiting_rows


def _is_as_large(core: Core, source: str, rows: int) -> bool:
    """Whether a source still has about so many rows: within a factor of two."""
    now = core.row_count(source)
    return rows <= 2 * now + _NEGLIGIBLE_GROWTH and now <= 2 * rows + _NEGLIGIBLE_GROWTH


def _expectations(core: Core, entry: ViewEntry, now: int) -> dict[str, Expectation]:
    """What the next refresh finds of each source: its next delta, or all until a deferred refresh.

    Waiting rows count if a source is otherwise quiet.
    For other sources the waiting rows say nothing about later refreshes, and the next refresh
    weighs them itself, together with the cost of rebuilding states.
    """
    span = span_of(entry.policies)
    found = {name: core.expectation(name, now, span) for name in entry.reads}
    coming = sum(each.rows for each in found.values() if not each.is_quiet)
    if 0 < coming < (least := least_rows(entry.policies)):
        for name, each in found.items():
            more = max(1.0, each.deltas * coming / least)
            found[name] = replace(each, rows=each.rows * least / coming, deltas=more)
    for source, deltas in entry.waiting.items():
        waits = sum(delta.size for delta in deltas)
        known = found[source.lower()]
        if waits and known.is_quiet:
            found[source.lower()] = replace(
                known, rows=float(waits), complete=False, deltas=max(1.0, known.deltas)
            )
    return found


def _select(
    core: Core, views: list[ViewEntry], expected: Mapping[str, Mapping[str, Expectation]]
) -> None:
    """Divide the budget between the views, then build and release states accordingly.

    The size of a state is known only once it is built; if the states do not fit, select again.
    """
    for attempt in range(3):
        claims = []
        for entry in views:
            assert entry.budgeted is not None
            note_sizes(entry.budgeted)
            entry.budgeted.planned_for = dict(expected[entry.name])
            entry.budgeted.planned_rows = {name: core.row_count(name) for name in entry.reads}
            entry.budgeted.measured.is_news = False
            root = _operators(core, entry, entry.budgeted, expected[entry.name])
            used = entry.budgeted.used
            selector = entry.budgeted.selector or core.selection
            claims.append(Claim(root, entry.budget, used, selector))
        selections = allot(claims, _free_budget(core))
        for entry, selection in zip(views, selections, strict=True):
            assert entry.budgeted is not None
            _carry_out(core, entry, entry.budgeted, selection, must_fit=attempt == 2)
        if all(_is_within(entry) for entry in views):
            return


def _free_budget(core: Core) -> int | None:
    """The part of the mill's budget that is left for views that can release states."""
    if core.budget is None:
        return None
    others = [entry for entry in core.catalog.views() if entry.budgeted is None]
    return max(0, core.budget - sum(entry.kept_bytes() for entry in others))


def _is_within(entry: ViewEntry) -> bool:
    budgeted = entry.budgeted
    assert budgeted is not None
    assert budgeted.selection is not None
    return entry.kept_bytes() <= budgeted.selection.budget


def _carry_out(
    core: Core, entry: ViewEntry, budgeted: BudgetedStates, selection: Selection, *, must_fit: bool
) -> None:
    budgeted.selection, budgeted.is_touched = selection, False
    wanted = {unit for unit, _ in units(budgeted) if holding_name(*unit) in selection.kept}
    last = budgeted.own[-1]
    shown = {(last.name, unit) for unit in uses_of(last.program).shown}
    for block in budgeted.own:
        if not isinstance(block.program.body, Triggers):
            shown |= {(block.name, unit) for unit in units_of(block.program)}  # as a whole or not
    try:
        if selection.mode == "full" or not shown <= wanted:
            switch_to_full(core, entry, budgeted)
        elif budgeted.mode == "full":
            # States count rows with a negative multiplicity, the engine does not: the view would
            # change without a refresh.
            if not entry.waiting_rows and not has_negative_rows(core, budgeted):
                before = budgeted.recompute.maintainer.contents()
                switch_to_incremental(core, entry, budgeted, wanted)
                _pass_on_difference(core, entry, before)
        else:
            release(budgeted, wanted)
            missing = bool(wanted & budgeted.released) and not entry.waiting_rows
            if missing and can_rebuild(core, budgeted):
                build_missing(core, entry, budgeted, wanted)
    except (ViewmillError, MemoryError) as why:
        _LOG.warning("states of view %s could not be built: %s", entry.name, why)
        if budgeted.mode == "full":
            budgeted.own = unbuilt_blocks(entry.plan)
        elif isinstance(why, MemoryError):
            sweep(budgeted, always=True)  # what is loaded in part counts as released
        else:
            switch_to_full(core, entry, budgeted)
    if must_fit and not _is_within(entry):
        switch_to_full(core, entry, budgeted)


def _pass_on_difference(core: Core, entry: ViewEntry, before: Delta) -> None:
    """Publish the change if states and engine round differently; readers follow the deltas."""
    if entry.listeners or core.catalog.readers(entry.name):
        after = entry.block.maintainer.contents()
        change = consolidate(concat(entry.schema, [after, before.negated()]))
        if change.size:
            core.pass_on(entry, change)


def _operators(
    core: Core, entry: ViewEntry, budgeted: BudgetedStates, expected: Mapping[str, Expectation]
) -> Operator:
    rows = {name: float(core.row_count(name)) for name in entry.reads}
    blocks = [(block.name, block.program) for block in budgeted.own]
    if budgeted.estimated is None:
        budgeted.estimated = estimated_sizes(core, budgeted.own)
    sizes = budgeted.estimated | budgeted.sizes
    situation = Situation(rows, expected, sizes, costs_of(core))
    root = operators_of(blocks, situation)
    if not budgeted.measured.is_known:
        return root
    return operators_of(blocks, budgeted.measured.correct(situation, root))


def costs_of(core: Core) -> Costs:
    """The cost model of this machine; the engine's part is measured once."""
    if core.costs is None:
        speed = engine_speed(core.engine)
        # A row of the measured query is read, and goes into a hash table.
        half = speed.row_us / 2
        core.costs = Costs(call=speed.start_us, scan=half, hash=half)
    return core.costs


def kept_and_why(entry: ViewEntry) -> Iterable[tuple[str, bool, str]]:
    """For each state of a budgeted view: its name, whether it is in memory, and why."""
    budgeted = entry.budgeted
    if budgeted is None:
        return
    why = {} if budgeted.selection is None else budgeted.selection.why
    for unit, _ in units(budgeted):
        name = holding_name(*unit)
        there = budgeted.mode == "incremental" and unit not in budgeted.released
        yield name, there, why.get(name, "")

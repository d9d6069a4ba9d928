"""Keep states within a budget: wake a view before a refresh, let it rest after it.

takes  views with a budget (MEMORY, or connect(memory=...) for all), what is expected to arrive
does   before a refresh: builds what it needs and is not there, from the tables as they were, or
       turns to computing the view again if that is cheaper
       after it: selects the states for the next delta and releases the others
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.errors import ViewmillError
from viewmill.mill.adapt import rebuilds
from viewmill.mill.calibration import engine_speed
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import (
    build,
    unbuilt_blocks,
)
from viewmill.mill.guess import guessed_sizes
from viewmill.mill.held_states import (
    build_missing,
    can_rebuild,
    is_owed_rows,
    note_sizes,
    rebuild,
    release,
    sweep,
    trim,
    turn_full,
    turn_incremental,
    units,
)
from viewmill.mill.keeping import Keeping, Unit
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
from viewmill.program.program import Triggers
from viewmill.program.uses import uses_of
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block
from viewmill.strategies.recompute.strategy import Recompute
from viewmill.strategies.strategy import Candidate, Cost

_LOG = logging.getLogger("viewmill")
_TRIM_BYTES = 1 << 20
_AMPLE = 1 << 60
_FEW_ROWS = 100  # a source that grows by so few is as large as before
_SMALL_CHANGE = 10_000  # rows: never worth thinking about computing everything again


def attach(core: Core, entry: ViewEntry) -> None:
    """Put a view under the budget, before it is filled, if there is one and it has states."""
    attach_built(core, entry)
    keeping = entry.keeping
    if keeping is not None and _starts_full(core, entry, keeping):
        keeping.mode = "full"  # nothing would be kept: do not build it first
        keeping.away = {unit for unit, _ in units(keeping)}
        keeping.own = unbuilt_blocks(entry.plan)
        entry.blocks = [keeping.again]


def attach_built(core: Core, entry: ViewEntry) -> None:
    """Put a view under the budget with all of its states."""
    if entry.budget is None and core.budget is None:
        return
    bodies = [block.program.body for block in entry.blocks]
    if not all(isinstance(body, Triggers | Windowed) for body in bodies):
        return
    if any(isinstance(body, Triggers) and body.enumeration is not None for body in bodies):
        return  # its states are its rows
    candidate = Candidate("recompute", entry.query, Cost(0, 0, 0))
    program = Recompute().emit(candidate, entry.name)
    again = Block(entry.name, program, build(core, program, entry), {entry.name})
    entry.keeping = Keeping(entry.blocks, again)
    core.runtime.watch(entry.name)


def _starts_full(core: Core, entry: ViewEntry, keeping: Keeping) -> bool:
    """Whether nothing could be kept, or nothing would be worth building for what is expected.

    How large the states will be is not known yet, so only a budget of nothing counts here.
    """
    if 0 in (entry.budget, core.budget) or core.selection != "dynamic":
        return 0 in (entry.budget, core.budget)
    root = _operators(core, entry, keeping, _expectations(core, entry, core.now()))
    return select_states(root, _AMPLE).mode == "full"


# Waking.


def refresh_blocks(core: Core, deltas: Mapping[str, Changed], among: set[str]) -> dict[str, Delta]:
    """Apply the change of sources to the views in `among`; what they need is made to be there."""
    if not core.catalog.keepers():
        return core.runtime.refresh(deltas, among, rebuilds(core, deltas, among))
    listed = {name: as_delta(each) for name, each in deltas.items()}
    _wake_views(core, listed, among)
    outputs = core.runtime.refresh(deltas, among, rebuilds(core, deltas, among))
    _note_refreshes(core, listed, among)
    return outputs


def _note_refreshes(core: Core, deltas: Mapping[str, Delta], among: set[str]) -> None:
    """Remember what the refresh has cost each view in a budget."""
    sizes = {name.lower(): delta.size for name, delta in deltas.items()}
    for entry in core.catalog.keepers():
        spent = core.runtime.spent(entry.name) if entry.name in among else 0.0
        if spent:
            assert entry.keeping is not None
            if entry.keeping.mode == "full":
                entry.keeping.measured.note_full(spent)
            else:
                changed = sum(sizes.get(name, 0) for name in entry.reads)
                entry.keeping.measured.note_delta(spent, changed)


def _wake_views(core: Core, deltas: Mapping[str, Delta], among: set[str]) -> None:
    changed = {name.lower() for name in deltas}
    for entry in core.catalog.in_order():
        if entry.name in among and entry.reads & changed:
            if entry.keeping is not None:
                _wake(core, entry, entry.keeping, deltas, changed & entry.reads)
            changed.add(entry.name.lower())


def _wake(
    core: Core,
    entry: ViewEntry,
    keeping: Keeping,
    deltas: Mapping[str, Delta],
    changed: set[str],
) -> None:
    keeping.is_touched, keeping.rebuilt = True, 0
    needed = _needed(keeping, changed)
    for unit in needed:
        name = holding_name(*unit)
        keeping.used[name] = keeping.used.get(name, 0) + 1
    if keeping.mode == "full":
        return
    missing = needed & keeping.away
    rows = sum(delta.size for delta in deltas.values())
    must = bool(missing) and not can_rebuild(core, keeping)
    may = bool(missing) or rows > _SMALL_CHANGE
    if must or (may and _full_is_cheaper(core, entry, keeping, deltas, changed)):
        turn_full(core, entry, keeping)
    elif missing:
        if not keeping.measured.knows_full and _is_planned(keeping, changed):
            _measure_full(keeping)
        rebuild(core, entry, keeping, missing, deltas)


def _needed(keeping: Keeping, changed: set[str]) -> set[Unit]:
    """The units that a change of these sources cannot do without."""
    changed, found = set(changed), set[Unit]()
    for block in keeping.own:
        inputs = [each.name for each in block.program.inputs if each.source.lower() in changed]
        if inputs:
            found |= {(block.name, unit) for unit in uses_of(block.program).needed(inputs)}
            changed.add(block.name.lower())
    return found


def _full_is_cheaper(
    core: Core,
    entry: ViewEntry,
    keeping: Keeping,
    deltas: Mapping[str, Delta],
    changed: set[str],
) -> bool:
    """Whether to compute the view again, and build once more what the next delta will need."""
    expected = dict.fromkeys(entry.reads, COMPLETE)
    sizes = {name.lower(): delta.size for name, delta in deltas.items()}
    for name in changed:
        expected[name] = Expectation(float(sizes.get(name, 0)) or 1.0, deltas=1.0)
    root = _operators(core, entry, keeping, expected)
    there = {holding_name(*unit) for unit, _ in units(keeping)}
    there -= {holding_name(*unit) for unit in keeping.away}
    next_kept = keeping.selection.kept if keeping.selection is not None else frozenset(there)
    again = sum(
        each.build_us for op in root.walk() for each in op.holdings if each.name in next_kept
    )
    return full_cost(root) + again < delta_cost(root, frozenset(there))


def _is_planned(keeping: Keeping, changed: set[str]) -> bool:
    """Whether these changes were expected, so that what is missing will be so each time."""
    known = keeping.planned_for
    return all(name in known and not known[name].is_quiet for name in changed)


def _measure_full(keeping: Keeping) -> None:
    """Compute the view again once, only to know what that takes.

    A view that builds states at each delta may be dearer than that, and what it never did is only
    estimated.
    """
    start = time.process_time_ns()
    keeping.again.maintainer.flush()
    keeping.again.maintainer.rollback()
    keeping.measured.note_full((time.process_time_ns() - start) / 1e3)


# Resting.


def rest(core: Core) -> None:
    """Select the states for the next deltas, where something changed, and release the others."""
    keepers = core.catalog.keepers()
    if not keepers or core.is_resting:
        return
    core.is_resting = True
    try:
        _rest(core, keepers)
    finally:
        core.is_resting = False


def _rest(core: Core, keepers: list[ViewEntry]) -> None:
    now = core.now()
    expected = {entry.name: _expectations(core, entry, now) for entry in keepers}
    for entry in keepers:
        assert entry.keeping is not None
        sweep(entry.keeping)
    due = [entry for entry in keepers if _is_due(core, entry, expected[entry.name])]
    if not due:
        return
    if core.budget is None:  # each has its own
        keepers = due
    before = sum(entry.kept_bytes() for entry in keepers)
    _select(core, keepers, expected)
    if before - sum(entry.kept_bytes() for entry in keepers) > _TRIM_BYTES:
        trim()


def _is_due(core: Core, entry: ViewEntry, expected: Mapping[str, Expectation]) -> bool:
    keeping = entry.keeping
    assert keeping is not None
    if keeping.selection is None or entry.kept_bytes() > keeping.selection.budget:
        return True
    if keeping.measured.is_news:
        return True
    known = keeping.planned_for
    if not all(name in known and each.is_like(known[name]) for name, each in expected.items()):
        return True
    if not all(_is_as_large(core, name, rows) for name, rows in keeping.planned_rows.items()):
        return True
    kept = {holding_name(*unit) for unit, _ in units(keeping)}
    kept -= {holding_name(*unit) for unit in keeping.away}
    return kept != keeping.selection.kept and not entry.waiting_rows


def _is_as_large(core: Core, source: str, rows: int) -> bool:
    """Whether a plan for a source of so many rows is still one: within a factor of two."""
    now = core.row_count(source)
    return rows <= 2 * now + _FEW_ROWS and now <= 2 * rows + _FEW_ROWS


def _expectations(core: Core, entry: ViewEntry, now: int) -> dict[str, Expectation]:
    """What the next refreshes will bring: what is predicted, and what waits for a quiet table.

    How much waits elsewhere says nothing of the refreshes after the next one, and for the next one
    it is judged when it comes, together with what building the states once more would take.
    """
    found = {name: core.expectation(name, now) for name in entry.reads}
    for source, deltas in entry.waiting.items():
        waits = sum(delta.size for delta in deltas)
        known = found[source.lower()]
        if waits and known.is_quiet:
            found[source.lower()] = replace(
                known, rows=float(waits), complete=False, deltas=max(1.0, known.deltas)
            )
    return found


def _select(
    core: Core, keepers: list[ViewEntry], expected: Mapping[str, Mapping[str, Expectation]]
) -> None:
    """Allot the budget between the views and carry the choices out.

    Sizes of states that are built are known only then: if they turn out too large, choose again.
    """
    for attempt in range(3):
        claims = []
        for entry in keepers:
            assert entry.keeping is not None
            note_sizes(entry.keeping)
            entry.keeping.planned_for = dict(expected[entry.name])
            entry.keeping.planned_rows = {name: core.row_count(name) for name in entry.reads}
            entry.keeping.measured.is_news = False
            root = _operators(core, entry, entry.keeping, expected[entry.name])
            used = entry.keeping.used
            selector = entry.keeping.selector or core.selection
            claims.append(Claim(root, entry.budget, used, selector))
        selections = allot(claims, _free_budget(core))
        for entry, selection in zip(keepers, selections, strict=True):
            assert entry.keeping is not None
            _carry_out(core, entry, entry.keeping, selection, must_fit=attempt == 2)
        if all(_is_within(entry) for entry in keepers):
            return


def _free_budget(core: Core) -> int | None:
    """What is left for views that can release states."""
    if core.budget is None:
        return None
    others = [entry for entry in core.catalog.views() if entry.keeping is None]
    return max(0, core.budget - sum(entry.kept_bytes() for entry in others))


def _is_within(entry: ViewEntry) -> bool:
    keeping = entry.keeping
    assert keeping is not None
    assert keeping.selection is not None
    return entry.kept_bytes() <= keeping.selection.budget


def _carry_out(
    core: Core, entry: ViewEntry, keeping: Keeping, selection: Selection, *, must_fit: bool
) -> None:
    keeping.selection, keeping.is_touched = selection, False
    wanted = {unit for unit, _ in units(keeping) if holding_name(*unit) in selection.kept}
    last = keeping.own[-1]
    shown = {(last.name, unit) for unit in uses_of(last.program).shown}
    try:
        if selection.mode == "full" or not shown <= wanted:
            turn_full(core, entry, keeping)
        elif keeping.mode == "full":
            # States count rows that were deleted before they came, the engine does not: a view
            # that it computed would change without a refresh.
            if not entry.waiting_rows and not is_owed_rows(core, keeping):
                before = keeping.again.maintainer.contents()
                turn_incremental(core, entry, keeping, wanted)
                _pass_on_difference(core, entry, before)
        else:
            release(keeping, wanted)
            missing = bool(wanted & keeping.away) and not entry.waiting_rows
            if missing and can_rebuild(core, keeping):
                build_missing(core, entry, keeping, wanted)
    except ViewmillError as why:
        _LOG.warning("states of view %s could not be built: %s", entry.name, why)
        if keeping.mode == "incremental":
            turn_full(core, entry, keeping)
        else:
            keeping.own = unbuilt_blocks(entry.plan)
    if must_fit and not _is_within(entry):
        turn_full(core, entry, keeping)


def _pass_on_difference(core: Core, entry: ViewEntry, before: Delta) -> None:
    """The engine and the states may round differently: who follows a view must hear of that."""
    if entry.listeners or core.catalog.readers(entry.name):
        after = entry.block.maintainer.contents()
        change = consolidate(concat(entry.schema, [after, before.negated()]))
        if change.size:
            core.pass_on(entry, change)


def _operators(
    core: Core, entry: ViewEntry, keeping: Keeping, expected: Mapping[str, Expectation]
) -> Operator:
    rows = {name: float(core.row_count(name)) for name in entry.reads}
    blocks = [(block.name, block.program) for block in keeping.own]
    if keeping.guessed is None:
        keeping.guessed = guessed_sizes(core, keeping.own)
    sizes = keeping.guessed | keeping.sizes
    situation = Situation(rows, expected, sizes, costs_of(core))
    root = operators_of(blocks, situation)
    if not keeping.measured.is_known:
        return root
    return operators_of(blocks, keeping.measured.correct(situation, root))


def costs_of(core: Core) -> Costs:
    """What work costs on this machine: the engine's part is measured once."""
    if core.costs is None:
        speed = engine_speed(core.engine)
        # A row of the measured query is read, and goes into a hash table.
        half = speed.row_us / 2
        core.costs = Costs(call=speed.start_us, scan=half, hash=half)
    return core.costs


def kept_and_why(entry: ViewEntry) -> Iterable[tuple[str, bool, str]]:
    """For each state of a view in a budget: its name, whether it is there, and why."""
    keeping = entry.keeping
    if keeping is None:
        return
    why = {} if keeping.selection is None else keeping.selection.why
    for unit, _ in units(keeping):
        name = holding_name(*unit)
        there = keeping.mode == "incremental" and unit not in keeping.away
        yield name, there, why.get(name, "")

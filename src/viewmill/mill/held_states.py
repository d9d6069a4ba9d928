"""Build and release the states of a view under a memory budget.

takes  a view's `BudgetedStates`, and which of its states are wanted
does   loads states from their definitions, over the tables as they are or as they were before a
       change; switches a view between incremental maintenance and recomputation
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.budgeted_states import BudgetedStates, Unit
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import (
    build,
    fill_blocks,
    is_replayed,
    load_states,
    negative_rows,
    unbuilt_blocks,
)
from viewmill.planner.operators import StateSize, entry_bytes
from viewmill.program.program import RowHolder, Triggers
from viewmill.program.states import State
from viewmill.program.uses import units_of
from viewmill.runtime.runtime import Block, join


def units(budgeted: BudgetedStates) -> list[tuple[Unit, Any]]:
    """The units that can be kept or released independently, each with its states, by block."""
    return [
        ((block.name, name), states)
        for block in budgeted.own
        for name, states in units_of(block.program).items()
    ]


def can_rebuild(core: Core, budgeted: BudgetedStates) -> bool:
    """Whether running the definitions of the states restores what they held.

    A definition does not see rows that were deleted before they were inserted, nor the order in
    which the rows of a window arrived. States without a definition are replayed instead.
    """
    programs = [block.program for block in budgeted.own]
    if any(not isinstance(each.body, Triggers) or is_replayed(each) for each in programs):
        return False
    return not has_negative_rows(core, budgeted)


def has_negative_rows(core: Core, budgeted: BudgetedStates) -> bool:
    """Whether a source has rows with a negative multiplicity: deleted before they were inserted."""
    inputs = [each for block in budgeted.own for each in block.program.inputs]
    return any(negative_rows(core, each).size for each in inputs)


def rebuild(
    core: Core,
    entry: ViewEntry,
    budgeted: BudgetedStates,
    missing: set[Unit],
    deltas: Mapping[str, Delta],
) -> None:
    """Build the missing states as they were before these deltas."""
    tables = _tables_before(core, entry, deltas)
    for block in budgeted.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in missing:
                _load(core, entry, budgeted, block, name, states, tables)
                budgeted.rebuilt += 1
        block.maintainer.commit()


def _tables_before(core: Core, entry: ViewEntry, deltas: Mapping[str, Delta]) -> dict[str, Any]:
    """The changed sources before the change: their present rows minus the deltas."""
    tables = {}
    for name, delta in deltas.items():
        source = core.catalog.get(name)
        if delta.size and name.lower() in entry.reads:
            if isinstance(source, TableEntry):
                tables[name.lower()] = source.table.arrow_before(delta)
            else:
                now = core.contents(name)
                old = consolidate(concat(now.schema, [now, delta.negated()]))
                tables[name.lower()] = expanded(old, core.dictionary)
    return tables


def switch_to_full(core: Core, entry: ViewEntry, budgeted: BudgetedStates) -> None:
    """Switch a view to recomputation and release all its states."""
    if budgeted.mode == "full":
        return
    contents = entry.block.maintainer.contents()
    _hold(budgeted, contents)
    note_sizes(budgeted)
    budgeted.mode = "full"
    budgeted.released = {unit for unit, _ in units(budgeted)}
    budgeted.own = unbuilt_blocks(entry.plan)
    _put(core, entry, [budgeted.recompute])


def _hold(budgeted: BudgetedStates, contents: Delta) -> None:
    """Let the recompute block show these rows until it runs."""
    holder = budgeted.recompute.maintainer
    assert isinstance(holder, RowHolder)
    holder.hold(contents)


def switch_to_incremental(
    core: Core, entry: ViewEntry, budgeted: BudgetedStates, wanted: set[Unit]
) -> None:
    """Switch a view to its own blocks: build the wanted states from the tables as they are."""
    for block in budgeted.own:
        block.maintainer = build(core, block.program, entry)
    if can_rebuild(core, budgeted):
        budgeted.released = {unit for unit, _ in units(budgeted)}
        build_missing(core, entry, budgeted, wanted)
    else:
        entry.blocks, released = budgeted.own, budgeted.released  # they read one another
        budgeted.released = set()
        try:
            fill_blocks(core, entry, budgeted.own)
        except BaseException:
            entry.blocks, budgeted.released = [budgeted.recompute], released
            raise
    budgeted.mode = "incremental"
    release(budgeted, wanted)
    _hold(budgeted, Delta.empty(entry.schema))
    _put(core, entry, budgeted.own)


def _put(core: Core, entry: ViewEntry, blocks: list[Block]) -> None:
    """Replace the blocks of a view in the runtime."""
    core.runtime.remove(entry.name)
    core.runtime.watch(entry.name)
    entry.blocks = blocks
    join(blocks, entry.name)
    for block in blocks:
        core.runtime.add(block)
    core.runtime.arrange([each.name for each in core.catalog.in_order()])


def build_missing(
    core: Core, entry: ViewEntry, budgeted: BudgetedStates, wanted: set[Unit]
) -> None:
    """Build the wanted states that are released, from the tables as they are."""
    for block in budgeted.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in wanted & budgeted.released:
                _load(core, entry, budgeted, block, name, states)
        block.maintainer.commit()


def _load(
    core: Core,
    entry: ViewEntry,
    budgeted: BudgetedStates,
    block: Block,
    name: str,
    states: tuple[State, ...],
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Build the states of a unit and record the CPU time it took."""
    start = time.process_time_ns()
    load_states(core, entry, block, states, tables)
    spent = (time.process_time_ns() - start) / 1e3
    budgeted.released.discard((block.name, name))
    budgeted.measured.note_build((block.name, name), spent)


def release(budgeted: BudgetedStates, wanted: set[Unit]) -> None:
    """Release every state that is not wanted."""
    for (block, name), _ in units(budgeted):
        if (block, name) not in wanted:
            budgeted.released.add((block, name))
    sweep(budgeted, always=True)


def sweep(budgeted: BudgetedStates, *, always: bool = False) -> None:
    """Clear released states: triggers add rows to them, too."""
    if budgeted.mode == "full" or not (budgeted.is_touched or always):
        return
    for block in budgeted.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in budgeted.released:
                for state in states:
                    block.maintainer.release(state.name)


def note_sizes(budgeted: BudgetedStates) -> None:
    """Record the size of each state; a released one keeps the size it had."""
    held: dict[str, Mapping[str, int]] = {}
    if budgeted.mode == "incremental":
        held = {block.name: block.maintainer.state_bytes() for block in budgeted.own}
    for unit, states in units(budgeted):
        if unit in budgeted.released or budgeted.mode == "full":
            known = budgeted.sizes.get(unit)
            if known is not None:
                budgeted.sizes[unit] = StateSize(known.bytes, known.rows, exists=False)
            continue
        budgeted.sizes[unit] = _size(held[unit[0]], states)


def _size(held: Mapping[str, int], states: tuple[State, ...]) -> StateSize:
    """The size of a unit, given the bytes that a maintainer holds for each state."""
    names = [state.name for state in states] or list(held)
    size = sum(held.get(name, 0) for name in names)
    return StateSize(size, max(1.0, size / entry_bytes(states)), exists=True)


def trim() -> None:
    """Return freed memory to the operating system, if the C library can (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

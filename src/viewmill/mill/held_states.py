"""The states of a view in a budget: build what is missing, release what is not wanted.

takes  a view's `Keeping`, and which of its states are wanted
does   loads states from their definitions, as the tables are or as they were before a change;
       turns a view between its own triggers and being computed again
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
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import (
    build,
    fill_blocks,
    is_replayed,
    load_states,
    rows_owed,
    unbuilt_blocks,
)
from viewmill.mill.keeping import Keeping, Unit
from viewmill.planner.operators import StateSize, entry_bytes
from viewmill.program.program import RowHolder
from viewmill.program.states import State
from viewmill.program.uses import units_of
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block, join


def units(keeping: Keeping) -> list[tuple[Unit, Any]]:
    """What can be kept or released by itself, with its states, in the order of the blocks."""
    return [
        ((block.name, name), states)
        for block in keeping.own
        for name, states in units_of(block.program).items()
    ]


def can_rebuild(core: Core, keeping: Keeping) -> bool:
    """Whether definitions alone say what was in the states.

    They do not know rows deleted before they came, nor in what order rows of a window arrived, and
    some states have none: they are fed again.
    """
    programs = [block.program for block in keeping.own]
    if any(isinstance(each.body, Windowed) or is_replayed(each) for each in programs):
        return False
    return not is_owed_rows(core, keeping)


def is_owed_rows(core: Core, keeping: Keeping) -> bool:
    """Whether rows of a source were deleted and have not come."""
    inputs = [each for block in keeping.own for each in block.program.inputs]
    return any(rows_owed(core, each).size for each in inputs)


def rebuild(
    core: Core,
    entry: ViewEntry,
    keeping: Keeping,
    missing: set[Unit],
    deltas: Mapping[str, Delta],
) -> None:
    """Build states as they were before these deltas."""
    tables = _tables_before(core, entry, deltas)
    for block in keeping.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in missing:
                _load(core, entry, keeping, block, name, states, tables)
                keeping.rebuilt += 1
        block.maintainer.commit()


def _tables_before(core: Core, entry: ViewEntry, deltas: Mapping[str, Delta]) -> dict[str, Any]:
    """The changed sources as they were: what is there now less the change."""
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


def turn_full(core: Core, entry: ViewEntry, keeping: Keeping) -> None:
    """From now on the view is computed again; all its states are released."""
    if keeping.mode == "full":
        return
    contents = entry.block.maintainer.contents()
    _hold(keeping, contents)
    note_sizes(keeping)
    keeping.mode = "full"
    keeping.away = {unit for unit, _ in units(keeping)}
    keeping.own = unbuilt_blocks(entry.plan)
    _put(core, entry, [keeping.again])


def _hold(keeping: Keeping, contents: Delta) -> None:
    """What computes the view again shows these rows until then."""
    holder = keeping.again.maintainer
    assert isinstance(holder, RowHolder)
    holder.hold(contents)


def turn_incremental(core: Core, entry: ViewEntry, keeping: Keeping, wanted: set[Unit]) -> None:
    """Build the view's own blocks, with these states, from the tables as they are now."""
    for block in keeping.own:
        block.maintainer = build(core, block.program, entry)
    if can_rebuild(core, keeping):
        keeping.away = {unit for unit, _ in units(keeping)}
        build_missing(core, entry, keeping, wanted)
    else:
        entry.blocks, away = keeping.own, keeping.away  # they read one another
        keeping.away = set()
        try:
            fill_blocks(core, entry, keeping.own)
        except BaseException:
            entry.blocks, keeping.away = [keeping.again], away
            raise
    keeping.mode = "incremental"
    release(keeping, wanted)
    _hold(keeping, Delta.empty(entry.schema))
    _put(core, entry, keeping.own)


def _put(core: Core, entry: ViewEntry, blocks: list[Block]) -> None:
    """Put blocks in the place of a view's others."""
    core.runtime.remove(entry.name)
    core.runtime.watch(entry.name)
    entry.blocks = blocks
    join(blocks, entry.name)
    for block in blocks:
        core.runtime.add(block)
    core.runtime.arrange([each.name for each in core.catalog.in_order()])


def build_missing(core: Core, entry: ViewEntry, keeping: Keeping, wanted: set[Unit]) -> None:
    """Build those of the wanted states that are away, from the tables as they are."""
    for block in keeping.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in wanted & keeping.away:
                _load(core, entry, keeping, block, name, states)
        block.maintainer.commit()


def _load(
    core: Core,
    entry: ViewEntry,
    keeping: Keeping,
    block: Block,
    name: str,
    states: tuple[State, ...],
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Build a unit, and remember what that cost."""
    start = time.process_time_ns()
    load_states(core, entry, block, states, tables)
    spent = (time.process_time_ns() - start) / 1e3
    keeping.away.discard((block.name, name))
    keeping.measured.note_build((block.name, name), spent)


def release(keeping: Keeping, wanted: set[Unit]) -> None:
    """Release every state that is not wanted."""
    for (block, name), _ in units(keeping):
        if (block, name) not in wanted:
            keeping.away.add((block, name))
    sweep(keeping, always=True)


def sweep(keeping: Keeping, *, always: bool = False) -> None:
    """Triggers add to states that are away, too: forget that."""
    if keeping.mode == "full" or not (keeping.is_touched or always):
        return
    for block in keeping.own:
        for name, states in units_of(block.program).items():
            if (block.name, name) in keeping.away:
                for state in states:
                    block.maintainer.release(state.name)


def note_sizes(keeping: Keeping) -> None:
    """Remember how large states are; of those that are away, how large they were."""
    held: dict[str, Mapping[str, int]] = {}
    if keeping.mode == "incremental":
        held = {block.name: block.maintainer.state_bytes() for block in keeping.own}
    for unit, states in units(keeping):
        if unit in keeping.away or keeping.mode == "full":
            known = keeping.sizes.get(unit)
            if known is not None:
                keeping.sizes[unit] = StateSize(known.bytes, known.rows, exists=False)
            continue
        keeping.sizes[unit] = _size(held[unit[0]], states)


def _size(held: Mapping[str, int], states: tuple[State, ...]) -> StateSize:
    """What the states of a unit take, of the bytes that a maintainer holds by state."""
    names = [state.name for state in states] or list(held)
    size = sum(held.get(name, 0) for name in names)
    return StateSize(size, max(1.0, size / entry_bytes(states)), exists=True)


def trim() -> None:
    """Hand freed memory back to the operating system, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

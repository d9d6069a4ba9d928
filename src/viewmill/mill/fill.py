"""Build the maintainers of a view and fill their states in bulk.

takes  a planned view
does   program → maintainer; runs the definition of each state on the engine and loads the rows, or
       feeds the tables to the triggers where that is faster
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from viewmill.algebra.clock import CLOCK, WATERMARK
from viewmill.algebra.relations import Values
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rows import to_delta
from viewmill.errors import ViewmillError
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.block_rows import BlockRows
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.state_snapshots import SavedStates
from viewmill.mill.table import Table
from viewmill.mill.window_families import join_family, window_of
from viewmill.planner.plan import Plan
from viewmill.program.arrays import Arrays
from viewmill.program.program import (
    ByRow,
    Exploded,
    Input,
    Maintainer,
    MomentParts,
    Program,
    Queries,
    Recursive,
    Timed,
    Trigger,
    Triggers,
)
from viewmill.program.states import Passing, Replay, State
from viewmill.program.window_parts import WindowParts
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block

_COUNTED_EACH_TIME = 10_000  # rows of a table that are looked at after each change

BUILDERS = {
    "arrays": "viewmill.kernels.arrays:build_arrays",
    "timed": "viewmill.kernels.timed:build",
    "explode": "viewmill.kernels.explode:build",
    "rows": "viewmill.kernels.by_row:build",
    "recursion": "viewmill.kernels.recursion:build",
    "mixed_moments": "viewmill.kernels.mixed_moments:build",
    "window_parts": "viewmill.kernels.window_parts:WindowPartMaintainer",
    "engine": "viewmill.engines.build:build",
}


# Bodies whose maintainers are made anew when a view is filled again.
_REBUILT = (Triggers, Arrays, ByRow, Queries, Recursive, Timed, Exploded, MomentParts)


def unbuilt_blocks(plan: Plan) -> list[Block]:
    """The blocks of a plan, with placeholders for their maintainers."""
    return [Block(each.name, each.program, _Unbuilt(), {plan.view}) for each in plan.blocks]


class _Unbuilt:
    """A placeholder for a maintainer: building one needs the view's entry."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} before the view was built")


def build(
    core: Core, program: Program, entry: ViewEntry, filled_from: int | None = None
) -> Maintainer:
    """The maintainer of a program that is filled from so many rows; None means all it reads."""
    if isinstance(program.body, Triggers):
        made = core.tiers.build(
            program, _source_rows(core, program) if filled_from is None else filled_from
        )
        chosen = next((b.chosen for b in entry.plan.blocks if b.program is program), None)
        made.products = None if chosen is None else chosen.product_trigger
        triggers: Maintainer = made
        return triggers
    if isinstance(program.body, Arrays):
        arrays: Maintainer = pkgutil.resolve_name(BUILDERS["arrays"])(program, core.dictionary)
        return arrays
    if isinstance(program.body, Exploded):
        exploded: Maintainer = pkgutil.resolve_name(BUILDERS["explode"])(program, core.dictionary)
        return exploded
    if isinstance(program.body, ByRow):
        rows: Maintainer = pkgutil.resolve_name(BUILDERS["rows"])(program, core.dictionary)
        return rows
    if isinstance(program.body, Recursive):
        step, rows_read = program.body.step, _source_rows(core, program)
        recursion: Maintainer = pkgutil.resolve_name(BUILDERS["recursion"])(
            program, lambda: core.tiers.build(step, rows_read)
        )
        return recursion
    if isinstance(program.body, Timed):
        timed: Maintainer = pkgutil.resolve_name(BUILDERS["timed"])(
            program, partial(core.time_of, program.body.tables)
        )
        return timed
    if isinstance(program.body, MomentParts):
        moments: Maintainer = pkgutil.resolve_name(BUILDERS["mixed_moments"])(
            program, core.dictionary
        )
        return moments
    if isinstance(program.body, Windowed):
        window: Maintainer = join_family(core, program, entry)
        return window
    if isinstance(program.body, WindowParts):
        return _build_window_parts(core, program, program.body)
    run = lambda relation: core.run(relation, view=entry)  # noqa: E731
    maintainer: Maintainer = pkgutil.resolve_name(BUILDERS["engine"])(program, run, core.dictionary)
    return maintainer


def _source_rows(core: Core, program: Program) -> int:
    """The total number of rows in the tables that a program reads."""
    entries = (core.catalog.get(each.source) for each in program.inputs)
    return sum(each.table.rows for each in entries if isinstance(each, TableEntry))


def _build_window_parts(core: Core, program: Program, body: WindowParts) -> Maintainer:
    table = core.catalog.table(program.inputs[0].source)
    source = table.table.parts
    assert source is not None
    source.lookback = max(source.lookback, body.width)
    made: Maintainer = pkgutil.resolve_name(BUILDERS["window_parts"])(
        program, source, core.dictionary, lambda: core.version, lambda: core.watermark(table)
    )
    return made


def fill(core: Core, entry: ViewEntry) -> None:
    """Fill a view: build every state from its definition, or run the query of a recomputed view."""
    fill_blocks(core, entry, _unshared(entry))
    if entry.enumerator is None and window_of(entry) is None:
        entry.rows = int(entry.block.maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()
    entry.refresh_kind = "backfill"
    entry.has_taken_all()


def fill_from_snapshot(core: Core, entry: ViewEntry, saved: SavedStates) -> None:
    """Fill a view with the states of a checkpoint, as of its version then."""
    saved.load(entry)
    entry.rows = saved.rows
    entry.version, entry.refreshed = saved.version, core.now()
    entry.refresh_kind = "backfill"


def _unshared(entry: ViewEntry) -> list[Block]:
    return [each for each in entry.blocks if each.views <= {entry.name}]


def fill_anew(core: Core, entry: ViewEntry) -> None:
    """Refill a view with new maintainers; an error leaves it as it was."""
    before = [(block, block.maintainer) for block in _unshared(entry)]
    try:
        for block, _ in before:
            if isinstance(block.program.body, _REBUILT):
                block.maintainer = build(core, block.program, entry)
        fill(core, entry)
    except BaseException:
        for block, maintainer in before:
            block.maintainer = maintainer
        raise


def fill_blocks(core: Core, entry: ViewEntry, blocks: Iterable[Block]) -> None:
    """Build all states of these blocks from the tables as they are now."""
    negative: dict[str, Delta] = {}
    blocks = list(blocks)
    own = _by_name([*_own_blocks(entry), *blocks])  # blocks read one another
    inner = BlockRows(core, entry, list(own.values()))
    for block in blocks:
        _fill_block(core, entry, block, own, negative, inner)


def restore_lost(core: Core) -> None:
    """Refill the states that a trigger left incomplete because memory ran out.

    The tables are unchanged; the changes that wait for a deferred view are left out. If memory
    runs out again, the next change retries, and until then the view cannot be read.
    """
    core.has_lost = False
    for entry in core.catalog.in_order():
        lost = [each.maintainer for each in entry.blocks if each.maintainer.is_lost]
        if not lost:
            continue
        try:
            with core.reading({name: core.rows_seen(entry, name) for name in entry.waiting}):
                fill_blocks(core, entry, [b for b in entry.blocks if b.maintainer in lost])
        except (MemoryError, ViewmillError):
            core.has_lost = True
            for each in lost:
                each.is_lost = True
                each.rollback()


def load_states(
    core: Core,
    entry: ViewEntry,
    block: Block,
    states: Iterable[State],
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Build states of a block; `tables` replaces the present rows of some sources.

    Float sums are exact, but an engine rounds them, so they are computed by a second maintainer
    that is fed the rows.
    """
    if keeps_float_sums(block.program) and can_be_fed(block.program):
        twin = replace(block, maintainer=build(core, block.program, entry))
        _feed(core, entry, twin, _by_name(_own_blocks(entry)), {}, tables)
        for state in states:
            if not state.derived:
                block.maintainer.load(state.name, twin.maintainer.snapshot(state.name))
        return
    _load_definitions(block, states, BlockRows(core, entry, _own_blocks(entry)), tables)


def _load_definitions(
    block: Block,
    states: Iterable[State],
    inner: BlockRows,
    tables: Mapping[str, Any] | None = None,
) -> None:
    for state in states:
        definition = state.definition
        if isinstance(definition, Replay) or (
            isinstance(definition, Values) and not definition.rows
        ):
            block.maintainer.load(state.name, ())
        elif not state.derived:
            block.maintainer.load(state.name, inner.run(block, definition, tables).to_batches())


def _fill_block(
    core: Core,
    entry: ViewEntry,
    block: Block,
    own: Mapping[str, Block],
    negative: dict[str, Delta],
    inner: BlockRows,
) -> None:
    maintainer = block.maintainer
    if isinstance(block.program.body, Recursive | Timed | MomentParts):
        negative[block.name] = _fill_by_feeding(core, entry, block, own, negative)
        return
    if _is_fed(core, block):
        negative[block.name] = _feed(core, entry, block, own, negative)
        return
    _load_definitions(block, block.program.states, inner)
    if is_replayed(block.program):
        negative[block.name] = _replay(core, entry, block, own, negative)
    elif isinstance(block.program.body, Windowed):
        negative[block.name] = _fill_window(block)
    elif isinstance(block.program.body, WindowParts):
        window: Any = maintainer
        window.fill()
        negative[block.name] = Delta.empty(block.program.output)
    elif isinstance(block.program.body, Queries):
        maintainer.flush()
    else:
        # The engine does not see rows with a negative multiplicity; the states must.
        for each in block.program.inputs:
            source = block.renamed.get(each.source, each.source)
            maintainer.apply(each.name, negative.get(source) or negative_rows(core, each))
        negative[block.name] = maintainer.flush()
    maintainer.commit()
    for state in block.program.states:
        if state.passing:
            maintainer.release(state.name)


def is_replayed(program: Program) -> bool:
    """Whether its states are built by replaying the inputs, which holds for all or none."""
    return any(isinstance(state.definition, Replay) for state in program.states)


def keeps_float_sums(program: Program) -> bool:
    """Whether a program has sums of floats."""
    slots = (slot for state in program.states for slot in state.kind.payload)
    return any(slot.kind in ("sum", "floats") for slot in slots)


def can_be_fed(program: Program) -> bool:
    """Whether triggers alone can fill the states of a program."""
    return isinstance(program.body, Triggers) and not is_replayed(program)


def _is_fed(core: Core, block: Block) -> bool:
    """Whether a block is filled by its triggers.

    A view tree is: a row takes a few steps, while the engine would compute the joins that the
    triggers only look up. Float sums are, because an engine rounds them.
    """
    program = block.program
    return can_be_fed(program) and (
        keeps_float_sums(program)
        or (
            program.strategy == "view_tree"
            and all(core.catalog.get(each.source) is not None for each in program.inputs)
            and not any(negative_rows(core, each).size for each in program.inputs)
        )
    )


def _feed(
    core: Core,
    entry: ViewEntry,
    block: Block,
    own: Mapping[str, Block],
    negative: Mapping[str, Delta],
    tables: Mapping[str, Any] | None = None,
) -> Delta:
    """Fill a block by feeding its changing inputs; static states are loaded from definitions.

    Rows with a negative multiplicity are fed last; gives the output delta that they cause.
    """
    program, maintainer = block.program, block.maintainer
    fed = {each.input for each in _triggers(program)}
    changing = _dearest_first(program, [each for each in program.inputs if each.name in fed])
    static = {each.source.lower() for each in program.inputs if each.name not in fed}
    nothing = {name: _no_rows(core, name) for name in entry.reads if name not in static}
    # A block that counts has a row over empty tables, too, and that row is fed as well.
    sources = (block.renamed.get(each.source, each.source) for each in changing)
    empty = {
        each: expanded(Delta.empty(own[each].program.output), core.dictionary)
        for each in sources
        if each in own
    }
    inner = BlockRows(core, entry, list(own.values()), empty)
    _load_definitions(block, program.states, inner, nothing)
    late = []
    for each in changing:
        rows, missing = _fed_rows(core, entry, block, each, own, negative, tables or {})
        maintainer.apply(each.name, rows)
        late.append((each.name, missing))
        _commit(block)
    if not any(missing.size for _, missing in late):
        return Delta.empty(program.output)
    for name, missing in late:
        maintainer.apply(name, missing)
    change = maintainer.flush()
    maintainer.commit()
    return change


def _commit(block: Block) -> None:
    """Commit the fed rows; only the states of a view tree are complete without a `flush`."""
    if block.program.strategy != "view_tree":
        block.maintainer.flush()
    block.maintainer.commit()


def _fed_rows(
    core: Core,
    entry: ViewEntry,
    block: Block,
    input_: Input,
    own: Mapping[str, Block],
    negative: Mapping[str, Delta],
    tables: Mapping[str, Any],
) -> tuple[Delta, Delta]:
    """The rows of an input as the engine sees them, and those with a negative multiplicity."""
    source = block.renamed.get(input_.source, input_.source)
    if source in own:
        missing = negative.get(source) or Delta.empty(input_.schema)
        shown = _shown(core, entry, own, own[source], negative, tables or None)
        if not missing.size:
            return shown, missing
        return consolidate(concat(input_.schema, [shown, missing.negated()])), missing
    given = tables.get(source.lower())
    if given is not None:
        return to_delta(given, input_.schema, core.dictionary), Delta.empty(input_.schema)
    rows = core.contents(source)
    missing = negative_rows(core, input_)
    return (rows.take(rows.multiplicities() > 0) if missing.size else rows), missing


def _no_rows(core: Core, source: str) -> Any:
    entry = core.catalog.get(source)
    assert isinstance(entry, TableEntry | ViewEntry)
    schema = entry.table.schema if isinstance(entry, TableEntry) else entry.schema
    return expanded(Delta.empty(schema), core.dictionary)


def _triggers(program: Program) -> tuple[Trigger, ...]:
    return program.body.triggers if isinstance(program.body, Triggers) else ()


def _dearest_first(program: Program, inputs: Sequence[Input]) -> list[Input]:
    """The inputs with the most expensive triggers first, while the other states are empty."""
    steps = {each.input: each.steps for each in _triggers(program)}
    return sorted(inputs, key=lambda each: -steps.get(each.name, 1.0))


def _replay(
    core: Core,
    entry: ViewEntry,
    block: Block,
    own: Mapping[str, Block],
    negative: Mapping[str, Delta],
) -> Delta:
    """Fill a block with empty states by feeding its inputs one after another.

    Rows with a negative multiplicity are fed last; gives the output delta that they cause.
    """
    maintainer, late = block.maintainer, []
    for each in _dearest_first(block.program, block.program.inputs):
        rows, missing = _fed_rows(core, entry, block, each, own, negative, {})
        maintainer.apply(each.name, rows)
        late.append((each.name, missing))
    maintainer.flush()
    if not any(missing.size for _, missing in late):
        return Delta.empty(block.program.output)
    maintainer.commit()
    for name, missing in late:
        maintainer.apply(name, missing)
    return maintainer.flush()


def _fill_by_feeding(
    core: Core,
    entry: ViewEntry,
    block: Block,
    own: Mapping[str, Block],
    negative: Mapping[str, Delta],
) -> Delta:
    """Fill a block by feeding its inputs, rows with a negative multiplicity last.

    Gives the output delta that those cause.
    """
    fed: Any = block.maintainer
    if fed.is_lost:
        fed.clear()
    late = []
    for each in block.program.inputs:
        if each.source == CLOCK or each.source.startswith(WATERMARK):
            continue
        rows, missing = _fed_rows(core, entry, block, each, own, negative, {})
        fed.apply(each.name, rows)
        late.append((each.name, missing))
    fed.flush()
    fed.commit()
    for name, missing in late:
        fed.apply(name, missing)
    change: Delta = fed.flush()
    fed.commit()
    return change


def _shown(
    core: Core,
    entry: ViewEntry,
    own: Mapping[str, Block],
    block: Block,
    negative: Mapping[str, Delta],
    tables: Mapping[str, Any] | None = None,
) -> Delta:
    """The rows of a block; recomputed if it does not store them or its states are released."""
    program = block.program
    if not _passes_rows_on(program) and not _is_away(entry, block):
        return block.maintainer.contents()
    rows = BlockRows(core, entry, list(own.values())).run(block, program.query, tables)
    named = rows.rename_columns(list(program.output.names))
    there = to_delta(named, program.output, core.dictionary)
    less = negative.get(block.name)
    return there if less is None else concat(program.output, [there, less])


def _by_name(blocks: Iterable[Block]) -> dict[str, Block]:
    return {each.name: each for each in blocks}


def _own_blocks(entry: ViewEntry) -> list[Block]:
    """The blocks of a view's plan, even if a budget has it recomputed as a whole."""
    return entry.blocks if entry.budgeted is None else entry.budgeted.own


def _is_away(entry: ViewEntry, block: Block) -> bool:
    """Whether states of a block are released, so that it cannot list its rows."""
    budgeted = entry.budgeted
    return budgeted is not None and any(name == block.name for name, _ in budgeted.released)


def _passes_rows_on(program: Program) -> bool:
    """Whether a block does not store its output rows, because only the next block reads them."""
    is_passing = any(isinstance(state.kind, Passing) for state in program.states)
    return is_passing or isinstance(program.body, ByRow | Exploded)


def _fill_window(block: Block) -> Delta:
    """Let the window's family fill it; a shared family does so before its next rows or reads."""
    window: Any = block.maintainer
    if window.tree is not None:
        window.family.spoil(window)
    if not window.family.is_shared:
        window.family.settle()
    return Delta.empty(block.program.output)


def negative_rows(core: Core, input_: Input) -> Delta:
    """The rows of a source with a negative multiplicity: deleted before they were inserted."""
    entry = core.catalog.get(input_.source)
    if isinstance(entry, TableEntry) and not entry.table.may_have_negative_rows:
        return Delta.empty(input_.schema)
    if entry is None:  # a block of the view itself
        return Delta.empty(input_.schema)
    contents = core.contents(input_.source)
    return contents.take(contents.multiplicities() < 0)


def count_negative_rows(table: Table) -> int:
    """The number of rows of an unchecked table that were deleted before they were inserted.

    Counting scans all rows, so for a large table the number is cached over some changes.
    """
    if not table.may_have_negative_rows:
        return 0

    def count() -> int:
        times = consolidate(table.contents()).multiplicities()
        return -int(times[times < 0].sum())

    return table.remembered("negative rows", count, max(1, table.rows // _COUNTED_EACH_TIME))

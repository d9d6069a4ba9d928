"""Compact the dictionary: remove strings and wide numbers that no row uses any more.

takes  a mill whose dictionary has grown large compared to its rows
does   replaces the dictionary: tables are translated, states are rebuilt from their definitions, as
       when a mill is opened

Ids are never reused for another string. A holder of rows with old ids (a subscriber with a Change,
a reader in progress) also holds the old dictionary, which lives as long as they do. Compaction
costs as much as opening the mill; it runs when more than half of the dictionary is dead, and not
again before it has doubled, so the amortized cost of a new string is constant.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import String, Wide
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.wide_codes import OWN
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import ArrowParts, Core
from viewmill.mill.fill import build, fill_blocks
from viewmill.program.arrays import Arrays
from viewmill.program.program import ByRow, Program, Queries, Triggers
from viewmill.runtime.runtime import Block

_Flags = npt.NDArray[np.bool_]


def compact_if_due(core: Core) -> None:
    """Compact the dictionary if more than half of it is dead and no ids are in use elsewhere.

    Call with the lock held, between two changes.
    """
    held = core.dictionary.held
    if held < core.compact_at or not _is_idle(core):
        return
    if 2 * _live(core) < held and _can_build_again(core):
        compact(core)
    core.compact_at = max(core.compact_at_least, 2 * core.dictionary.held)


def _is_idle(core: Core) -> bool:
    """Whether all encoded rows are in tables and states."""
    waits = any(entry.waiting_rows for entry in core.catalog.views())
    return not (core.notices or core.is_delivering or core.has_lost or waits)


def _can_build_again(core: Core) -> bool:
    """Whether every state can be rebuilt from the tables; time parts, patterns and windows depend
    on rows that are gone and on the order of arrival."""
    if core.families or core.starting or core.part_files or core.catalog.budgeted_views():
        return False
    if any(not entry.table.is_timeless for entry in core.catalog.tables()):
        return False
    programs = (block.program for entry in core.catalog.views() for block in entry.blocks)
    return all(_follows_from_tables(each) for each in programs)


def _follows_from_tables(program: Program) -> bool:
    return isinstance(program.body, Triggers | Arrays | ByRow | Queries)


def _live(core: Core) -> int:
    """The number of dictionary entries that rows of tables use."""
    dictionary = core.dictionary
    strings = np.zeros(len(dictionary), np.bool_)
    wides = np.zeros(len(dictionary.wide), np.bool_)
    for entry in core.catalog.tables():
        rows = entry.table.kept()
        if rows.lazy is None:
            _mark(rows, strings, wides)
    return int(strings.sum() + wides.sum())


def _mark(rows: Delta, strings: _Flags, wides: _Flags) -> None:
    for i, field in enumerate(rows.schema):
        words = rows.columns[i]
        if isinstance(field.type, String) and len(strings):
            strings[words] = True
        elif isinstance(field.type, Wide) and len(wides):
            sizes = np.abs(words)
            wides[sizes[sizes >= OWN] - OWN] = True


def compact(core: Core) -> None:
    """Replace the dictionary by a compact one; an error leaves everything as it was."""
    dictionary, parts = core.dictionary, core.arrow_parts
    tables = [(entry, entry.table) for entry in core.catalog.tables()]
    maintainers = [(block, block.maintainer) for _, blocks in _blocks(core) for block in blocks]
    core.dictionary = dictionary.successor()
    core.arrow_parts = ArrowParts(core.dictionary)
    try:
        for entry, _ in tables:
            _translate_table(entry, core.dictionary)
        for view, blocks in _blocks(core):
            _rebuild_view(core, view, blocks)
    except BaseException:
        core.dictionary, core.arrow_parts = dictionary, parts
        for entry, table in tables:
            entry.table = table
        for block, maintainer in maintainers:
            block.maintainer = maintainer
        raise


def _translate_table(entry: TableEntry, dictionary: Dictionary) -> None:
    entry.table = entry.table.translated(dictionary)


def _rebuild_view(core: Core, view: ViewEntry, blocks: list[Block]) -> None:
    calls = view.engine_calls
    for block in blocks:
        block.maintainer = build(core, block.program, view)
    fill_blocks(core, view, blocks)
    view.engine_calls = calls  # no refresh asked the engine


def _blocks(core: Core) -> Iterator[tuple[ViewEntry, list[Block]]]:
    """The views in dependency order, each with the blocks that no earlier view has."""
    seen: set[int] = set()
    for view in core.catalog.in_order():
        own = [block for block in view.blocks if id(block) not in seen]
        seen |= {id(block) for block in own}
        yield view, own

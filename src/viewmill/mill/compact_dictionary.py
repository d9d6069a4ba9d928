"""Give back the strings and the wide numbers that no row holds any more.

takes  a mill whose dictionary has grown large against its rows
does   puts a new dictionary in its place: tables are translated, states are built again from their
       definitions, as when a mill is opened

No id is ever used again for another string. So whoever still has rows under old ids (a subscriber
who keeps a Change, a reader half way) has the old dictionary too, and it lives as long as they do.
What costs as much as opening the mill is done when half of a dictionary is dead, and then not again
before it has doubled: for each string that comes it is a small, constant cost.
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
    """Renew the dictionary if more than half of it is dead, and nobody is about to use ids of it.

    Call with the lock held, between two changes.
    """
    held = core.dictionary.held
    if held < core.compact_at or not _is_idle(core):
        return
    if 2 * _live(core) < held and _can_build_again(core):
        compact(core)
    core.compact_at = max(core.compact_at_least, 2 * core.dictionary.held)


def _is_idle(core: Core) -> bool:
    """Whether all rows under ids are in tables and states."""
    waits = any(entry.waiting_rows for entry in core.catalog.views())
    return not (core.notices or core.is_delivering or core.id_holders or core.has_lost or waits)


def _can_build_again(core: Core) -> bool:
    """Whether every state follows from the tables as they are: time parts, patterns and windows
    know of rows that are gone, and of the order in which they came."""
    if core.families or core.starting or core.part_files or core.catalog.budgeted_views():
        return False
    if any(not entry.table.is_timeless for entry in core.catalog.tables()):
        return False
    programs = (block.program for entry in core.catalog.views() for block in entry.blocks)
    return all(_follows_from_tables(each) for each in programs)


def _follows_from_tables(program: Program) -> bool:
    return isinstance(program.body, Triggers | Arrays | ByRow | Queries)


def _live(core: Core) -> int:
    """How many strings and wide numbers the tables hold, at most those that have ids."""
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
    """Put a new dictionary in the place of the one that is there; an error leaves all as it was."""
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
    """The views in the order of what they read, each with the blocks that none before it has."""
    seen: set[int] = set()
    for view in core.catalog.in_order():
        own = [block for block in view.blocks if id(block) not in seen]
        seen |= {id(block) for block in own}
        yield view, own

"""Compact the dictionary: remove strings and wide numbers that no row uses any more.

takes  a mill whose dictionary has grown large compared to its rows
does   replaces the dictionary: tables, and what views keep of rows that are gone, are translated;
       other states are rebuilt from their definitions, as when a mill is opened

Ids are never reused for another string. A holder of rows with old ids (a subscriber with a Change,
a reader in progress) also holds the old dictionary, which lives as long as they do. Compaction
costs as much as opening the mill; it runs when more than half of the dictionary is dead, and not
again before it has doubled, so the amortized cost of a new string is constant.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import String, Wide
from viewmill.deltas.delta import Delta
from viewmill.deltas.translate import Translation
from viewmill.deltas.wide_codes import OWN
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import ArrowParts, Core
from viewmill.mill.create import attach_own_archive
from viewmill.mill.fill import build, fill_blocks
from viewmill.mill.held_states import release, trim, units
from viewmill.mill.pattern_snapshots import pass_on_runs
from viewmill.mill.patterns import build_pattern
from viewmill.mill.refresh import netted
from viewmill.mill.temporal import build_parts
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Maintainer, Queries
from viewmill.program.window_parts import WindowParts
from viewmill.program.windows import Windowed
from viewmill.runtime.runtime import Block

_Flags = npt.NDArray[np.bool_]


def compact_if_due(core: Core) -> None:
    """Compact the dictionary if more than half of it is dead and no ids are in use elsewhere.

    Call with the lock held, between two changes.
    """
    held = core.dictionary.held
    if held < core.compact_at or not _is_idle(core):
        return
    if 2 * _live(core) < held:
        compact(core)
        gc.collect()  # old maintainers refer to each other
        trim()
    core.compact_at = max(core.compact_at_least, 2 * core.dictionary.held)


def _is_idle(core: Core) -> bool:
    """Whether all encoded rows are in tables and views."""
    waits = any(entry.waiting_rows and _reads_present(entry) for entry in core.catalog.views())
    return not (core.notices or core.is_delivering or core.has_lost or waits)


def _reads_present(entry: ViewEntry) -> bool:
    """Whether a view can be rebuilt only with the rows that wait for it: it reads the parts."""
    kinds = (PatternQueries, WindowParts)
    return any(isinstance(block.program.body, kinds) for block in entry.blocks)


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
    before = _Before(core)
    translate = Translation(core.dictionary, core.dictionary.successor())
    core.dictionary = translate.new
    core.arrow_parts, core.families = ArrowParts(core.dictionary), {}
    try:
        for entry in core.catalog.tables():
            entry.table = entry.table.translated(translate)
            attach_own_archive(core, entry)
        for view, blocks in _blocks(core):
            _translate_waiting(view, translate)
            _rebuild_view(core, view, blocks, translate)
        core.runtime.find_families()
    except BaseException:
        before.restore(core)
        raise


class _Before:
    """What compaction replaces."""

    def __init__(self, core: Core) -> None:
        self._dictionary, self._arrow_parts = core.dictionary, core.arrow_parts
        self._families = core.families
        self._tables = [(entry, entry.table) for entry in core.catalog.tables()]
        self._views = [(entry, dict(entry.waiting)) for entry in core.catalog.views()]
        self._blocks = [(b, b.maintainer) for _, blocks in _blocks(core) for b in blocks]
        budgeted = [entry.budgeted for entry in core.catalog.budgeted_views()]
        self._released = [(each, set(each.released)) for each in budgeted if each is not None]

    def restore(self, core: Core) -> None:
        """Put everything back."""
        core.dictionary, core.arrow_parts = self._dictionary, self._arrow_parts
        core.families = self._families
        for entry, table in self._tables:
            entry.table = table
        for view, waiting in self._views:
            view.waiting = waiting
        for block, maintainer in self._blocks:
            block.maintainer = maintainer
        for budgeted, released in self._released:
            budgeted.released = released
        core.runtime.find_families()


def _translate_waiting(view: ViewEntry, translate: Translation) -> None:
    """Translate the net change that waits for a view: the rest would keep its strings."""
    view.waiting = {name: [translate(change)] for name, change in netted(view).items()}


def _rebuild_view(core: Core, view: ViewEntry, blocks: list[Block], translate: Translation) -> None:
    """Give a view new maintainers that show what it shows."""
    calls, filled = view.engine_calls, []
    for block in blocks:
        old, block.maintainer = block.maintainer, _new_maintainer(core, view, block)
        if not _takes_over(view, block, old, translate):
            filled.append(block)
    with _all_states(view), core.reading({n: core.rows_seen(view, n) for n in view.waiting}):
        fill_blocks(core, view, filled)
    view.engine_calls = calls  # no refresh asked the engine


@contextmanager
def _all_states(view: ViewEntry) -> Iterator[None]:
    """Let all states of a view be filled; those that a budget had released are so again."""
    budgeted = view.budgeted
    if budgeted is None or budgeted.mode == "full":
        yield
        return
    wanted = {unit for unit, _ in units(budgeted)} - budgeted.released
    budgeted.released = set()
    yield
    release(budgeted, wanted)


def _new_maintainer(core: Core, view: ViewEntry, block: Block) -> Maintainer:
    body = block.program.body
    if isinstance(body, PatternQueries):
        pattern: Any = build_pattern(core, view)
        return cast(Maintainer, pattern)
    if isinstance(body, PartQueries):
        return build_parts(core, block.program, view)
    return build(core, block.program, view)


def _takes_over(view: ViewEntry, block: Block, old: Maintainer, translate: Translation) -> bool:
    """Fill a maintainer from the one before, if it shows what rows that are there do not tell.

    That is what rows that are gone left behind, and floats that followers have been told.
    """
    new: Any = block.maintainer
    match block.program.body:
        case PatternQueries():
            pass_on_runs(view, old, new, translate)
        case WindowParts():
            new.fill()
            new.commit()
            new.take_over(old, translate)
        case PartQueries() | Windowed():
            new.take_over(old, translate)
        case Queries():
            new.hold(translate(old.contents()))
        case _:
            return False
    return True


def _blocks(core: Core) -> Iterator[tuple[ViewEntry, list[Block]]]:
    """The views in dependency order, each with the blocks that no earlier view has."""
    seen: set[int] = set()
    for view in core.catalog.in_order():
        recompute = [] if view.budgeted is None else [view.budgeted.recompute]
        blocks = {id(block): block for block in [*view.blocks, *recompute]}
        yield view, [block for key, block in blocks.items() if key not in seen]
        seen |= blocks.keys()

"""Apply rows one at a time and record the view after each: for back-testing and benchmarks.

takes  a table, rows, a view
gives  an Arrow table

A program with `Triggers.replays` does this inside one kernel, and the rows are one batch. For any
other view each row is a batch of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.relations import Aggregate, Limit, Project, Relation, Sort
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Product
from viewmill.errors import EvaluationFailed, InvalidArgument
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.refresh import refresh_view

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

STEP, MULTIPLICITY = "_step", "_multiplicity"


def replay(mill: Mill, core: Core, table: str, delta: Delta, view: str) -> Any:
    """The rows of `view`, or their changes, after each row of a table's delta."""
    mill.require_no_batch()
    with core.lock:
        entry = core.catalog.view(view)
        source = core.catalog.table(table).name
    if source.lower() not in entry.reads:
        raise InvalidArgument(f'view "{entry.name}" does not read table "{source}"')
    if _in_one_kernel(core, entry, source):
        shown = _replay_in_kernel(mill, entry, source, delta)
        if is_one_row(entry.query):
            return decode_delta(shown, core.dictionary)
        steps = np.abs(shown.multiplicities()) - 1
        signs = np.sign(shown.multiplicities())
        rows = Delta(shown.schema, shown.columns, shown.nulls, signs, shown.size)
        return _with_steps(decode_delta(rows, core.dictionary, multiplicity=MULTIPLICITY), steps)
    return _replay_in_batches(mill, core, entry, source, delta)


def is_one_row(query: Relation) -> bool:
    """Whether a view always has exactly one row: an aggregate without GROUP BY and HAVING."""
    while isinstance(query, Project | Sort):
        query = query.input
    return isinstance(query, Aggregate) and not query.keys and not isinstance(query, Limit)


def _in_one_kernel(core: Core, entry: ViewEntry, source: str) -> bool:
    is_alone = len(entry.blocks) == 1 and entry.name in core.catalog.immediate()
    return is_alone and entry.block.maintainer.can_replay(source)


class _Replaying:
    """Wraps a maintainer: applies one delta row by row and records the output of each step."""

    def __init__(self, maintainer: Any, delta: Delta) -> None:
        self._maintainer, self._delta = maintainer, delta
        self.shown: Delta | None = None

    def apply(self, input: str, delta: Delta | Product) -> None:
        if delta is not self._delta:
            raise EvaluationFailed(
                "a row of the replay fails", detail="Without it the rest could be applied."
            )
        self.shown = self._maintainer.replay(input, delta)

    def apply_and_flush(self, input: str, delta: Delta, is_lent: bool) -> Any:
        self.apply(input, delta)
        return self._maintainer.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._maintainer, name)


def _replay_in_kernel(mill: Mill, entry: ViewEntry, source: str, delta: Delta) -> Delta:
    block = entry.block
    maintainer = block.maintainer
    replaying: Any = _Replaying(maintainer, delta)
    adapts, entry.adapts = entry.adapts, False  # recomputing it would show no steps
    block.maintainer = replaying
    try:
        mill.change(source, delta)
    finally:
        block.maintainer, entry.adapts = maintainer, adapts
    shown: Delta | None = replaying.shown
    return Delta.empty(entry.schema) if shown is None else shown


def _replay_in_batches(mill: Mill, core: Core, entry: ViewEntry, source: str, delta: Delta) -> Any:
    one_row, before = is_one_row(entry.query), entry.block.maintainer.contents()
    tables, steps = [], []
    for i in range(delta.size):
        mill.change(source, delta.take(np.array([i])))
        with core.write_lock:
            refresh_view(core, entry)
            now = entry.block.maintainer.contents()
        shown = now if one_row else consolidate(concat(entry.schema, [now, before.negated()]))
        name = None if one_row else MULTIPLICITY
        tables.append(decode_delta(shown, core.dictionary, multiplicity=name))
        steps.append(np.full(shown.size, i))
        before = now
    if not tables:
        return decode_delta(Delta.empty(entry.schema), core.dictionary)
    whole = pa.concat_tables(tables)
    return whole if one_row else _with_steps(whole, np.concatenate(steps))


def _with_steps(table: Any, steps: Any) -> Any:
    return table.append_column(STEP, pa.array(steps, pa.int64()))

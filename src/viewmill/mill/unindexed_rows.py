"""Rows of large inserts that are not in a table's index yet.

A large insert need not be looked up, so its rows stay out of the index until deletes come. A few
deletes do not wait for an index of all rows: they are looked for slice by slice, and only slices
that may hold one of them are taken out, to be indexed. Each search takes one slice more, so that
all rows are indexed after some searches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from viewmill.deltas.delta import Delta
from viewmill.mill.segments import Segments

SLICE_ROWS = 1 << 16
_MAX_SEARCHED = 64  # rows; for more an index of everything is quicker


class UnindexedRows(Segments):
    """Committed inserts that wait to be indexed, and the staged ones of the current batch."""

    def take_for(self, deletes: Delta) -> Iterator[Delta]:
        """Remove and return rows to be indexed before these are deleted."""
        if deletes.size > _MAX_SEARCHED:
            yield from self.take()
            return
        slices = [part for rows in self.take() for part in _sliced(rows)]
        taken = [any(_may_hold(part, deletes, i) for i in range(deletes.size)) for part in slices]
        if False in taken:
            taken[taken.index(False)] = True
        for part, is_taken in zip(slices, taken, strict=True):
            if is_taken:
                yield part
            else:
                self.keep(part)


def _sliced(rows: Delta) -> Iterator[Delta]:
    if rows.size <= SLICE_ROWS:
        yield rows
        return
    pairs, times = [rows.pair(i) for i in range(len(rows.schema))], rows.multiplicity
    for start in range(0, rows.size, SLICE_ROWS):
        part = slice(start, start + SLICE_ROWS)
        yield Delta(
            rows.schema,
            tuple(words[part] for words, _ in pairs),
            tuple(None if mask is None else mask[part] for _, mask in pairs),
            None if times is None else times[part],
            min(SLICE_ROWS, rows.size - start),
        )


def _may_hold(rows: Delta, others: Delta, i: int) -> bool:
    """Whether row `i` of `others` may be among the rows; False is certain."""
    at = np.arange(rows.size)
    for column in range(len(rows.schema)):
        (words, mask), (other, other_mask) = rows.pair(column), others.pair(column)
        if other_mask is not None and other_mask[i]:
            at = at[:0] if mask is None else at[mask[at].astype(bool)]
        else:
            value, found = other[i], words if len(at) == rows.size else words[at]
            equal = found == value
            at = at[equal | (found != found) if value != value else equal]  # NaN equals NaN
        if not len(at):
            return False
    return True

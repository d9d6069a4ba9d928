"""Many windows over one stream, summed by one kernel: SlickDeque (Inv) with one ring for all.

After each row the sum of all rows so far goes into a ring. A window's running value is the newest
entry less the entry where the window begins: one operation for each answer, whatever the range, and
the ring is shared by every window. Whole numbers only: a sum of all rows loses digits of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.errors import InvalidArgument
from viewmill.kernels import compiler
from viewmill.kernels.compiler import WORDS

Array = npt.NDArray[Any]
U = np.uint64


class SharedSums:
    """The last answer of each window; windows are pairs of range and slide in rows."""

    def __init__(self, windows: Sequence[tuple[int, int]], *, compiled: bool | None = None) -> None:
        if any(range_ < 1 or slide < 1 for range_, slide in windows):
            raise InvalidArgument("a window and its slide are at least one row")
        pairs = np.array(windows, np.int64).reshape(-1, 2)
        self._order = np.lexsort((pairs[:, 0], pairs[:, 1]))
        self._ranges = np.ascontiguousarray(pairs[self._order, 0])
        self._slides, counts = np.unique(pairs[:, 1], return_counts=True)
        self._firsts = np.concatenate([[0], np.cumsum(counts)])
        size = 1 << int(self._ranges.max()).bit_length()
        self._ring = np.zeros(size, np.int64)
        self._cursors, self._answered = np.zeros(2, np.int64), np.zeros(1, np.int64)
        self._out = np.zeros(len(pairs), np.int64)
        self._kernel = _kernel(compiler.is_on(compiled))

    def feed(self, rows: Array) -> None:
        """Take rows in, answering each window at each of its slides."""
        x = np.ascontiguousarray(rows, np.int64)
        plan = (self._slides, self._firsts, self._ranges)
        self._kernel(x, *plan, self._out, self._answered, self._ring, self._cursors)

    def answers(self) -> Array:
        """The last answer of each window, in the order in which they were given."""
        found = np.empty_like(self._out)
        found[self._order] = self._out
        return found

    @property
    def answered(self) -> int:
        """How many answers were given."""
        return int(self._answered[0])

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(each.nbytes for each in (self._ring, self._ranges, self._out))


@cache
def _kernel(compiled: bool) -> Any:
    if not compiled:
        return answer_sums
    return compiler.compile_kernel(answer_sums, (WORDS,) * 8)


def answer_sums(
    x: Array,
    slides: Array,
    firsts: Array,
    ranges: Array,
    out: Array,
    answered: Array,
    ring: Array,
    cursors: Array,
) -> int:
    """Feed rows; windows firsts[g] to firsts[g + 1] have slide slides[g].

    out[q] is the last answer of window q, and answered[0] the number of answers given.
    """
    mask = ring.size - 1
    now, total, given = cursors[0], cursors[1], answered[0]
    for i in range(x.size):
        total += x[U(i)]
        now += 1
        ring[U(now & mask)] = total
        for g in range(slides.size):
            if now % slides[U(g)] != 0:
                continue
            first, end = firsts[U(g)], firsts[U(g + 1)]
            for q in range(first, end):
                begin = max(now - ranges[U(q)], 0)
                out[U(q)] = total - ring[U(begin & mask)]
            given += end - first
    cursors[0], cursors[1], answered[0] = now, total, given
    return 0

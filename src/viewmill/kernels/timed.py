"""Keep a filter by the clock: rows wait for the moment they come, and for the one they go.

takes  Program with a Timed body, and a clock
gives  a Maintainer

Both orders are kept as sorted runs that are merged as they grow, like a log-structured tree. A
deleted row is a row of its own with a negative multiplicity and the same deadlines: it meets the
row that it deletes at the latest where both would leave. A tick looks at the first deadline of each
run and at the rows that are due, at no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Product
from viewmill.kernels.deadlines import NEVER, comes_back, shown_between
from viewmill.program.program import Maintainer, Program, Timed

Words = npt.NDArray[np.int64]
_ROW_BYTES = 24  # of a row, for its deadline and its multiplicity


class _Run(NamedTuple):
    """Rows by deadline; those before position `start` have left."""

    deadlines: Words
    rows: Delta
    start: int

    @property
    def size(self) -> int:
        return len(self.deadlines) - self.start

    def rest(self) -> Delta:
        return (
            self.rows.take(np.arange(self.start, len(self.deadlines))) if self.start else self.rows
        )


_Runs = tuple[_Run, ...]


def build(program: Program, clock: Callable[[], int]) -> TimedMaintainer:
    """A maintainer for the program; `clock` gives UTC microseconds and never goes back."""
    assert isinstance(program.body, Timed)
    return TimedMaintainer(program, program.body, clock)


class TimedMaintainer(Maintainer):
    """A filter by the clock at work."""

    def __init__(self, program: Program, body: Timed, clock: Callable[[], int]) -> None:
        self.program, self._body, self._clock = program, body, clock
        self._schema, self._comes_back = program.output, comes_back(body)
        self._coming: _Runs = ()  # by the moment from which they are shown
        self._shown: _Runs = ()  # by the moment from which they are shown no more
        self._committed: tuple[_Runs, _Runs] = ((), ())
        self._arrived: list[Delta] = []  # since the last flush
        self._out: list[Delta] = []

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Take the change of the rows; a change of the clock says nothing but that time passed."""
        change = delta.delta() if isinstance(delta, Product) else delta
        if input == self._body.input and change.size:
            self._arrived.append(_owned(change, self._schema))

    def flush(self) -> Delta:
        """The rows that come and go until now."""
        now = self._clock()
        self._go(now)
        for change in self._arrived:
            self._take(change, now)
        self._arrived = []
        if not self._out:
            return Delta.empty(self._schema)
        return consolidate(concat(self._schema, self._out))

    def _go(self, now: int) -> None:
        self._shown, gone = _until(self._shown, now)
        self._out += [each.negated() for each in gone]
        self._coming, come = _until(self._coming, now)
        for each in [*come, *gone] if self._comes_back else come:
            self._take(each, now)

    def _take(self, rows: Delta, now: int) -> None:
        """Show the rows whose time it is, and keep those whose time comes."""
        begin, end = shown_between(self._body, rows, now)
        ahead = (begin > now) & (end > begin)
        if ahead.any():
            self._coming = _with(self._coming, begin[ahead], rows.take(ahead), self._starts)
        here = (begin <= now) & (end > now)
        if here.any():
            shown = rows if here.all() else rows.take(here)
            self._shown = _with(self._shown, end[here], shown, self._ends)
            self._out.append(shown)

    def _starts(self, rows: Delta) -> Words:
        return shown_between(self._body, rows, self._clock())[0]

    def _ends(self, rows: Delta) -> Words:
        return shown_between(self._body, rows, self._clock())[1]

    def commit(self) -> None:
        """Keep what was applied."""
        self._committed = self._coming, self._shown
        self._out = []

    def rollback(self) -> None:
        """Undo everything applied since the last commit."""
        self._coming, self._shown = self._committed
        self._arrived, self._out = [], []

    def contents(self) -> Delta:
        """The output as committed."""
        rows = [each.rest() for each in self._committed[1]]
        return consolidate(concat(self._schema, rows)) if rows else Delta.empty(self._schema)

    def next_deadline(self) -> int:
        """The first moment at which time alone changes the rows; NEVER if there is none."""
        runs = (*self._committed[0], *self._committed[1])
        return min((int(each.deadlines[each.start]) for each in runs), default=NEVER)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        named = {"coming": self._committed[0], "shown": self._committed[1]}
        return {
            name: sum(each.rows.nbytes + len(each.deadlines) * _ROW_BYTES for each in runs)
            for name, runs in named.items()
        }

    def clear(self) -> None:
        """Forget everything, before a fill."""
        self._coming, self._shown = (), ()
        self.commit()


def _until(runs: _Runs, now: int) -> tuple[_Runs, list[Delta]]:
    """The runs without the rows that are due, and these."""
    if not any(each.deadlines[each.start] <= now for each in runs):
        return runs, []
    kept, due = list[_Run](), list[Delta]()
    for run in runs:
        end = int(np.searchsorted(run.deadlines, now, side="right"))
        if end > run.start:
            due.append(run.rows.take(np.arange(run.start, end)))
        if end < len(run.deadlines):
            kept.append(run._replace(start=max(end, run.start)))
    return tuple(kept), due


def _with(runs: _Runs, deadlines: Words, rows: Delta, again: Callable[[Delta], Words]) -> _Runs:
    """The runs with more rows; a run is merged with one before it that is not much larger."""
    made = [*runs, _sorted(deadlines, rows)]
    while len(made) > 1 and made[-2].size <= 2 * made[-1].size:
        merged = _merged(made[-2], made[-1], again)
        made[-2:] = [merged] if merged.size else []
    return tuple(made)


def _merged(one: _Run, other: _Run, again: Callable[[Delta], Words]) -> _Run:
    rows = concat(one.rows.schema, [one.rest(), other.rest()])
    if rows.deletes:
        rows = consolidate(rows)
        return _sorted(again(rows), rows)
    deadlines = np.concatenate([one.deadlines[one.start :], other.deadlines[other.start :]])
    return _sorted(deadlines, rows)


def _sorted(deadlines: Words, rows: Delta) -> _Run:
    if len(deadlines) < 2 or (deadlines[1:] >= deadlines[:-1]).all():
        return _Run(deadlines, rows, 0)
    order = np.argsort(deadlines, kind="stable")
    return _Run(deadlines[order], rows.take(order), 0)


def _owned(delta: Delta, schema: Any) -> Delta:
    """A copy of a delta that was lent, with the names of the output."""
    copy = delta.take(np.arange(delta.size))
    return Delta(schema, copy.columns, copy.nulls, copy.multiplicity, copy.size)

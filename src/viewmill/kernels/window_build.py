"""Maintain a window of a stream.

takes  Program with a Windowed body
gives  a Maintainer whose output is the answer of the last window, and whose change is every answer
       since the last commit in order: the old one of a group deleted, the new one inserted

Rows go into panes, cut where a window can begin or end (Pairs). At the end of a slide panes enter
and leave a `PaneQueue`; only groups with rows in those are answered anew. A row that comes late
changes its pane, and the answer that was given is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.consolidate import consolidate, group_rows
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels.build import build
from viewmill.kernels.linear import Linear
from viewmill.kernels.pane_queue import Groups, PaneQueue
from viewmill.kernels.window_answers import Answers
from viewmill.kernels.window_payloads import Count, Rows, aggregate_of
from viewmill.program.program import Program
from viewmill.program.windows import WindowAggregate, Windowed

Array = npt.NDArray[Any]

_ROWS = WindowAggregate("count", (), None, None)  # type: ignore[arg-type]  # never shown


def build_window(
    program: Program, dictionary: Dictionary, *, compiled: bool | None = None
) -> WindowMaintainer:
    """The maintainer of a window."""
    assert isinstance(program.body, Windowed)
    return WindowMaintainer(program, program.body, dictionary, compiled)


@dataclass(frozen=True)
class Cutting:
    """Where panes begin and end: at the ends of slides, and where windows begin."""

    window: SlidingWindow

    @property
    def rest(self) -> int:
        """The length of the second pane of a slide; 0 if a slide is one pane."""
        return self.window.size % self.window.slide

    def panes(self, times: Array) -> Array:
        """The pane of each row; -1 for those that no window sees."""
        slides, within = np.divmod(times, self.window.slide)
        if not self.rest:
            return np.asarray(slides)
        second = within >= self.window.slide - self.rest
        if self.window.size < self.window.slide:
            return np.where(second, 2 * slides + 1, -1)
        return np.asarray(2 * slides + second)

    def start(self, pane: int) -> int:
        """The first moment of a pane."""
        if not self.rest:
            return pane * self.window.slide
        slide, second = divmod(pane, 2)
        return slide * self.window.slide + second * (self.window.slide - self.rest)

    def enters(self, pane: int) -> int:
        """The end of the first window that sees a pane."""
        return ((pane // 2 if self.rest else pane) + 1) * self.window.slide

    def leaves(self, pane: int) -> int:
        """The end of the first window that sees it no more."""
        slide = self.window.slide
        return (self.start(pane) + self.window.size) // slide * slide + slide


@dataclass
class _State:
    """All that changes between commits. Panes are replaced, never changed in place."""

    queue: PaneQueue
    answers: Answers
    rows: dict[int, Delta] = field(default_factory=dict)  # of panes inside and of those to come
    waiting: dict[int, Groups] = field(default_factory=dict)  # panes that no window has seen yet
    end: int | None = None  # of the last window that was answered
    reached: int | None = None  # the watermark, or the number of rows
    arrived: int = 0  # rows so far
    late: int = 0  # rows older than every window to come

    def copy(self) -> _State:
        return replace(
            self,
            queue=self.queue.copy(),
            answers=self.answers.copy(),
            rows=dict(self.rows),
            waiting=dict(self.waiting),
        )


class WindowMaintainer:
    """A window at work."""

    def __init__(
        self, program: Program, body: Windowed, dictionary: Dictionary, compiled: bool | None
    ) -> None:
        self.program, self._body, self._window = program, body, body.window
        self._cutting = Cutting(body.window)
        # The first aggregate counts rows: a group is there while it has some.
        self._aggregates = [Count(_ROWS), *map(aggregate_of, body.aggregates)]
        self._prepare = _Linear(build(body.prepare, dictionary, compiled=compiled))
        self._finish = _Linear(build(body.finish, dictionary, compiled=compiled))
        self._width = 2 + len(body.keys)  # of prepared rows: arrival, time, keys, then arguments
        schema = self._finish.schema
        answers = Answers(schema, len(body.keys), self._aggregates, is_grouped=bool(body.keys))
        self._now = _State(PaneQueue(self._aggregates), answers)
        self._kept: _State | None = None  # as committed, while a change is under way
        self._changes: list[Delta] = []

    # The maintainer's calls.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Put rows into their panes."""
        delta = rows_of(delta)
        self._begin()
        if not delta.size:
            return
        state = self._now
        numbered = _numbered(delta, self._prepare.schema, state.arrived)
        state.arrived += delta.size
        self._note_time(delta)
        prepared = self._prepare.run(numbered)
        mask = prepared.nulls[1]
        if mask is not None:
            prepared = prepared.take(mask == 0)  # a row without a time is in no window
        if prepared.size:
            self._gather(prepared)

    def advance(self, watermark: int) -> None:
        """Time has come this far."""
        self._begin()
        if self._window.unit == "time":
            self._reach(watermark)

    def flush(self) -> Delta:
        """Answer every window that has ended; all answers in order."""
        state = self._now
        if state.reached is not None:
            end = self._window.last_end(state.reached)
            for moment in self._moments(end):
                self._slide(moment)
            if state.end is None or end > state.end:
                state.end = end
        if not self._changes:
            return Delta.empty(self.program.output)
        changes, self._changes = self._changes, []
        return self._finish.run_in_order(changes, self.program.output)

    def commit(self) -> None:
        """Keep what was applied."""
        self._kept = None

    def rollback(self) -> None:
        """Go back to the last commit."""
        self._changes = []
        if self._kept is not None:
            self._now, self._kept = self._kept, None

    def contents(self) -> Delta:
        """The last answer of each group, as committed."""
        shown = (self._kept or self._now).answers.shown()
        return self._finish.run_in_order([shown], self.program.output)

    def load(self, state: str, rows: Iterable[pa.RecordBatch]) -> None:
        """A window has no state with a definition: its rows are applied again."""
        raise KeyError(state)

    def release(self, state: str) -> None:
        """There is no state to release by name."""
        raise KeyError(state)

    def snapshot(self, state: str) -> Iterator[pa.RecordBatch]:
        """There is no state to write by name."""
        raise KeyError(state)

    def state_bytes(self) -> Mapping[str, int]:
        """The rows that windows to come can see."""
        held = sum(_nbytes(each) for each in self._now.rows.values())
        return {"panes": held, "answers": self._now.answers.nbytes}

    @property
    def late_rows(self) -> int:
        """Rows that came when no window could see them any more."""
        return self._now.late

    # Rows.

    def _begin(self) -> None:
        if self._kept is None:
            self._kept = self._now.copy()

    def _note_time(self, delta: Delta) -> None:
        if self._window.unit == "rows":
            self._reach(self._now.arrived)
            return
        at = self.program.inputs[0].schema.names.index(self._window.column)
        coming, mask = delta.multiplicities() > 0, delta.nulls[at]
        if mask is not None:
            coming = coming & (mask == 0)
        if coming.any():
            self._reach(int(delta.columns[at][coming].max()) - self._window.lateness)

    def _reach(self, moment: int) -> None:
        reached = self._now.reached
        self._now.reached = moment if reached is None else max(reached, moment)

    def _gather(self, prepared: Delta) -> None:
        """Rows into panes; panes that were answered already are corrected at once."""
        panes = self._cutting.panes(prepared.columns[1])
        order = np.lexsort((prepared.columns[0], prepared.columns[1], panes))
        prepared, panes = prepared.take(order), panes[order]
        borders = np.flatnonzero(np.diff(panes)) + 1
        corrected: list[Groups] = []
        for rows in np.split(np.arange(len(panes)), borders):
            pane = int(panes[rows[0]])
            if pane >= 0 or self._window.size >= self._window.slide:
                corrected += self._add_rows(pane, prepared.take(rows))
        if corrected:
            self._answer(corrected)

    def _add_rows(self, pane: int, new: Delta) -> list[Groups]:
        """Add rows to a pane; what it held and holds, if a window has shown it."""
        state = self._now
        if state.end is not None and self._cutting.leaves(pane) <= state.end:
            state.late += int((new.multiplicities() > 0).sum())
            return []
        held = state.rows.get(pane)
        rows = new if held is None else _merged(held, new)
        state.rows[pane] = rows
        groups = self._lift(rows)
        if state.end is None or self._cutting.enters(pane) > state.end:
            state.waiting[pane] = groups
            return []
        before = state.queue.get(pane)
        state.queue.change(pane, groups)
        return [groups] if before is None else [before, groups]

    def _lift(self, rows: Delta) -> Groups:
        """A pane's rows by group."""
        ids = self._now.answers.group_ids(rows, 2, self._width)
        present, groups = np.unique(ids, return_inverse=True)
        columns, nulls = tuple(rows.columns)[self._width :], tuple(rows.nulls)[self._width :]
        lifted = Rows(groups, len(present), rows.multiplicities(), columns, nulls)
        return Groups(present, tuple(each.lift(lifted) for each in self._aggregates))

    # Slides.

    def _moments(self, end: int) -> list[int]:
        """The ends of windows up to `end` at which a pane enters or leaves; between them nothing
        changes, however long it takes."""
        state = self._now
        since = state.end
        found = set()
        for pane in (*state.waiting, *state.queue.ids()):
            for moment in (self._cutting.enters(pane), self._cutting.leaves(pane)):
                if moment <= end and (since is None or moment > since):
                    found.add(moment)
        return sorted(found)

    def _slide(self, end: int) -> None:
        """Let panes leave and enter, and answer."""
        state = self._now
        touched = []
        for pane in sorted(state.queue.ids()):
            if self._cutting.leaves(pane) <= end:
                touched.append(state.queue.pop(pane))
                state.rows.pop(pane, None)
        for pane in sorted(state.waiting):
            if self._cutting.enters(pane) > end:
                break
            groups = state.waiting.pop(pane)
            if self._cutting.leaves(pane) > end:
                state.queue.push(pane, groups)
                touched.append(groups)
        state.end = end
        self._answer(touched)

    def _answer(self, touched: list[Groups]) -> None:
        """Answer the groups anew that have rows in these panes."""
        if touched:
            ids = np.unique(np.concatenate([each.ids for each in touched]))
            change = self._now.answers.renew(ids, self._now.queue.answer())
            self._changes.append(change)


class _Linear(Linear):
    """One whose rows have an order."""

    def run_in_order(self, parts: list[Delta], output: Schema) -> Delta:
        """What numbered rows become, in their order, without the number."""
        rows = concat(self.schema, parts)
        numbers = np.arange(rows.size)
        numbered = replace(rows, columns=(numbers, *rows.columns[1:]))
        done = self.run(numbered)
        done = done.take(np.argsort(done.columns[0], kind="stable"))
        return Delta(output, done.columns[1:], done.nulls[1:], done.multiplicities(), done.size)


def _numbered(delta: Delta, schema: Schema, first: int) -> Delta:
    """The rows with the number of their arrival as a last column."""
    numbers = np.arange(first, first + delta.size)
    columns, nulls = (*delta.columns, numbers), (*delta.nulls, None)
    return Delta(schema, columns, nulls, delta.multiplicity, delta.size)


def _merged(held: Delta, new: Delta) -> Delta:
    """The rows of a pane with more rows, in order; deletes find the row they take away."""
    rows = concat(held.schema, [held, new])
    if rows.multiplicity is not None and (rows.multiplicity < 0).any():
        rows = _cancelled(rows)
    return rows.take(np.lexsort((rows.columns[0], rows.columns[1])))


def _cancelled(rows: Delta) -> Delta:
    """Equal rows as one, whenever they arrived; those that are gone left out."""
    arrivals = rows.columns[0]
    blind = replace(rows, columns=(np.zeros_like(arrivals), *rows.columns[1:]))
    first, _ = group_rows(blind.words())
    kept = consolidate(blind)
    by_row = {blind.take(np.array([i])).words().tobytes(): int(arrivals[i]) for i in first}
    words = kept.words()
    found = np.array([by_row[words[i : i + 1].tobytes()] for i in range(kept.size)], np.int64)
    return replace(kept, columns=(found, *kept.columns[1:]))


def _nbytes(delta: Delta) -> int:
    masks = sum(mask.nbytes for mask in delta.nulls if mask is not None)
    return sum(column.nbytes for column in delta.columns) + masks

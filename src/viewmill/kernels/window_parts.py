"""Maintain a sliding window of whole time parts by helper parts.

takes  `Program` with a `WindowParts` body, the table in parts that it reads
gives  `Maintainer`; part j of the view is the answer of the window that ends with slide j

Rows go into the helper part of their time part. When the watermark reaches the end of a slide its
window is answered from helper parts. Late rows are added to helper parts that are kept; the windows
that see them, and only those, are answered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, concat, word_dtype
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels.build import build
from viewmill.kernels.helper_part_stores import ByPart, Cumulative, HelperPartStore
from viewmill.kernels.helper_parts import HelperPart, Ints, Layout, PartRows
from viewmill.kernels.linear import Linear
from viewmill.kernels.pattern_runs import Groups
from viewmill.kernels.window_payloads import kept_words
from viewmill.program.kept_parts import KeptParts, is_change
from viewmill.program.parts import SECOND
from viewmill.program.program import Maintainer, Program
from viewmill.program.window_parts import WindowParts

_MIN_DEAD_GROUPS = 16  # fewer dead groups are not worth removing


class WindowPartMaintainer(KeptParts, Maintainer):
    """The helper parts of one window, and its answers."""

    def __init__(
        self,
        program: Program,
        source: Any,
        dictionary: Dictionary,
        version: Callable[[], int],
        watermark: Callable[[], int | None],
    ) -> None:
        assert isinstance(program.body, WindowParts)
        body = program.body
        super().__init__(program.output, body.window.slide // SECOND, version)
        self._body, self._source, self._watermark = body, source, watermark
        self._dictionary = dictionary
        self._prepare = None if body.picked else Linear(build(body.prepare, dictionary))
        self._finish = None if body.shown else Linear(build(body.finish, dictionary))
        prepared = program.inputs[0].schema if body.picked else body.prepare.output
        at = body.picked or range(2, len(prepared))
        arguments = [prepared[i] for i in at][len(body.keys) :]
        self._layout = Layout(body.aggregates, [each.nullable for each in arguments])
        self._answers = body.finish.inputs[0].schema
        self._nothing_taken()

    def _nothing_taken(self) -> None:
        body = self._body
        self._groups = Groups(Schema(tuple(body.keys)))
        is_cumulative = body.helpers == "cumulative"
        self._store: HelperPartStore = (
            Cumulative(self._layout) if is_cumulative else ByPart(self._layout, body.width)
        )
        self._reached: int | None = None
        self._kept: tuple[Any, ...] | None = None
        self._applied: list[Delta] = []
        self._now: tuple[Ints, Delta] = self._computed(None)
        self._old: dict[int, HelperPart] = {}
        self._owing: set[int] = set()  # parts in which a row went before it came
        self._checked = 0  # the slide at which groups were last looked through

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Stage the rows; `flush` takes them when the table's watermark says that all are there."""
        self._begin()
        self._applied.append(rows_of(delta))

    def flush(self) -> Delta:
        """Correct the windows that late rows concern, then answer those that have ended."""
        self._begin()
        self._reach(self._watermark())
        touched: set[int] = set()
        for delta in self._applied:
            touched.update(self._take(delta))
        self._applied = []
        changes: list[Delta] = []
        self._correct(touched, changes)
        self._start(touched)
        self._roll(self._end(), changes)
        return concat(self.schema, changes) if changes else Delta.empty(self.schema)

    def commit(self) -> None:
        """Keep what was taken."""
        super().commit()
        self._store.commit()
        self._kept = None

    def rollback(self) -> None:
        """Go back to the last commit."""
        super().rollback()
        self._store.rollback()
        self._applied = []
        self._old.clear()
        if self._kept is not None:
            self._reached, self._now = self._kept
            self._kept = None

    def contents(self) -> Delta:
        """The committed answer of the newest window."""
        return self._now[1] if self._kept is None else self._kept[1][1]

    def answer(self) -> Delta:
        """The answer of the newest window, including the uncommitted batch."""
        return self._now[1]

    def part(self, subscript: int) -> Delta:
        """The answer of a window; without GROUP BY that of an empty one is a row."""
        found = super().part(subscript)
        if self._body.keys or found.size or self.first is None or self.next is None:
            return found
        is_there = self.first <= subscript < self.next
        return self._computed(None)[1] if is_there else found

    def fill(self) -> None:
        """Take the rows of the table, part by part, and answer every window since its first."""
        before = list(self._catalog)
        self.restore(None, None, {}, [])
        self._pending = {}
        self._nothing_taken()
        self._reach(self._watermark())
        first, last = self._source.first_part(), self._source.newest_part()
        present = [] if first is None else self._source.parts_within(first, last)
        for part in present:
            self._add(part, self._source.part(part))
            self._start({part})
            self._roll(min(self._end() or 0, (part + 1) // self._body.step), [])
            self._store.commit()
            self._forget_helpers()
        self._roll(self._end(), [])
        oldest = self.oldest_shown()
        for slide in [s for s in self._pending if oldest is not None and s < oldest]:
            del self._pending[slide]
        for slide in before:
            if self.unwritten is not None and slide not in self._pending:
                self.unwritten.end(slide)

    def take_over(self, old: Any, translate: Callable[[Delta], Delta]) -> None:
        """Continue with the answers of a maintainer before, with other ids of strings."""
        super().take_over(old, translate)
        groups, rows = old._now
        if self._body.keys and len(groups):
            numbers = self._groups.numbers(translate(old._groups.keys(groups)))
            by = np.argsort(numbers)
            self._now = numbers[by], translate(rows).take(by)

    def oldest_shown(self) -> int | None:
        """The first window that sees a part that retention leaves; the table keeps the others."""
        oldest = self._source.oldest_shown()
        return None if oldest is None else oldest // self._body.step

    def forget(self) -> None:
        """Drop answers that retention ends, helper parts that lateness does not need, the dead."""
        super().forget()
        self._forget_helpers()
        if self.next is not None and self.next - self._checked >= self._body.width:
            self._checked = self.next
            self._clean_up()

    def state_bytes(self) -> Mapping[str, int]:
        """The answers, and the helper parts."""
        return {**super().state_bytes(), "helper_parts": self._store.nbytes}

    @property
    def helper_parts(self) -> int:
        """How many helper parts are kept."""
        return len(self._store)

    @property
    def group_count(self) -> int:
        """How many groups helper parts have a place for."""
        return len(self._groups)

    # Time.

    def _begin(self) -> None:
        if self._kept is None:
            self._kept = self._reached, self._now

    def _reach(self, moment: int | None) -> None:
        if moment is not None:
            self._reached = moment if self._reached is None else max(self._reached, moment)

    def _end(self) -> int | None:
        """The slide that is under way: all before it have ended."""
        return None if self._reached is None else self._reached // self._body.window.slide

    # Rows.

    def _take(self, delta: Delta) -> list[int]:
        """Rows into their helper parts; the parts that changed."""
        oldest = self._source.oldest_shown()
        found = []
        for part, rows in self._source.split(delta):
            # Answers stay when retention ends rows; some may just have come with the batch.
            is_shown = oldest is None or part >= oldest
            for change in [rows] if is_shown else self._source.coming(part):
                self._add(part, change)
                found.append(part)
        return found

    def _add(self, part: int, rows: Delta) -> None:
        if self._body.helpers == "by_part" and (_has_negative(rows) or part in self._owing):
            whole = self._source.part(part)
            self._store.put(part, self._lifted(whole))
            if _has_negative(whole):
                self._owing.add(part)  # the row that is still to come must not be counted then
            return
        change = self._lifted(rows)
        if len(change.groups):
            self._store.add(part, change)

    def _lifted(self, rows: Delta) -> HelperPart:
        """The helper part of rows."""
        prepared, at = rows, self._body.picked
        if self._prepare is not None:
            numbers = np.arange(rows.size)
            whole = ((*rows.columns, numbers), (*rows.nulls, None))
            prepared = self._prepare.run(
                Delta(self._prepare.schema, *whole, rows.multiplicity, rows.size)
            )
            at = tuple(range(2, len(prepared.schema)))
        assert at is not None
        columns = [prepared.columns[i] for i in at]
        nulls = [prepared.nulls[i] for i in at]
        width = len(self._body.keys)
        keys = Delta(
            self._groups.schema, tuple(columns[:width]), tuple(nulls[:width]), None, prepared.size
        )
        numbers = self._groups.numbers(keys)
        read = PartRows(numbers, prepared.multiplicity, columns[width:], nulls[width:])
        return self._layout.lift(read, len(self._groups))

    # Answers.

    def _start(self, touched: set[int]) -> None:
        if not touched:
            return
        first = min(self._body.slides_of(part).start for part in touched)
        if self.first is None or self.next is None:
            self.first = self.next = first
        elif first < self.first:
            self.next = first if self.next == self.first else self.next
            self.first = first

    def _correct(self, touched: set[int], changes: list[Delta]) -> None:
        """Answer again the windows that have been answered and see a part that changed."""
        if self.first is None or self.next is None or self.next == self.first:
            return
        due = {slide for part in touched for slide in self._body.slides_of(part)}
        for slide in sorted(each for each in due if each < self.next):
            groups, rows = self._computed(slide)
            if slide == self.next - 1:
                self._show(groups, rows, changes)
            if is_change(self.part(slide), rows):
                self.keep(slide, rows)
        self._old.clear()

    def _roll(self, end: int | None, changes: list[Delta]) -> None:
        """Answer the windows that have ended since."""
        if end is None or self.next is None:
            return
        while self.next < end:
            slide = self.next
            first, last = self._body.span(slide)
            following = self._store.next_after(first - 1)
            if following is None or following > last:
                self._show(*self._computed(None), changes)
                after = end if following is None else self._body.slides_of(following).start
                self.next = min(end, max(after, slide + 1))
                continue
            groups, rows = self._computed(slide)
            self._show(groups, rows, changes)
            self.keep(slide, self._now[1])
            self.next = slide + 1

    def _show(self, groups: Ints, rows: Delta, changes: list[Delta]) -> None:
        """Rows that differ from what is shown now: the old ones go, the new ones come."""
        old_groups, old = self._now
        gone, came = _differing(old_groups, old, groups, rows)
        if not len(gone) and not len(came):
            return
        changes += [old.take(gone).negated(), rows.take(came)]
        self._now = groups, rows

    def _computed(self, slide: int | None) -> tuple[Ints, Delta]:
        """The groups of a window and its rows, ascending by group; None is a window without any."""
        helper = self._layout.empty() if slide is None else self._window(slide)
        if not self._body.keys and not len(helper.groups):
            helper = self._layout.blank(np.zeros(1, np.int64))
            self._groups.numbers(Delta(self._groups.schema, (), (), None, 1))
        elif not len(helper.groups):
            return helper.groups, Delta.empty(self.schema)
        keys = self._groups.keys(helper.groups)
        columns, nulls = [helper.groups, *keys.columns], [None, *keys.nulls]
        fields = self._answers.fields[1 + len(self._body.keys) :]
        for field, (values, null) in zip(fields, self._layout.answers(helper), strict=True):
            is_null = bool(null.any())
            values = kept_words(values, self._dictionary)
            words = np.where(null, 0, values) if is_null else values
            columns.append(np.ascontiguousarray(words, word_dtype(field.type)))
            nulls.append(null.astype(np.uint8) if is_null else None)
        return self._finished(helper.groups, columns, nulls)

    def _window(self, slide: int) -> HelperPart:
        first, last = self._body.span(slide)
        found = self._store.window(first, last, len(self._groups))
        if found is None:  # helper parts that old are gone: the table still has the rows
            parts = [self._again(part) for part in self._source.parts_within(first, last)]
            parts = [each for each in parts if len(each.groups)]
            found = self._layout.joined(parts, len(self._groups)) if parts else self._layout.empty()
        if not (found.sums[0] > 0).all():
            there = np.flatnonzero(found.sums[0] > 0)
            found = HelperPart(
                found.groups[there], found.sums[:, there], found.keys[:, there],
                found.floats[:, there],
            )  # fmt: skip
        return found

    def _again(self, part: int) -> HelperPart:
        """A helper part that is not kept any more; windows that are corrected together share it."""
        found = self._old.get(part)
        if found is None:
            found = self._old[part] = self._lifted(self._source.part(part))
        return found

    def _finished(self, groups: Ints, columns: list[Any], nulls: list[Any]) -> tuple[Ints, Delta]:
        """The view's rows of answers; HAVING may leave some out."""
        if self._body.shown is not None:
            at = [1 + i for i in self._body.shown]
            picked, masks = tuple(columns[i] for i in at), tuple(nulls[i] for i in at)
            return groups, Delta(self.schema, picked, masks, None, len(groups))
        assert self._finish is not None
        done = self._finish.run(
            Delta(self._answers, tuple(columns), tuple(nulls), None, len(groups))
        )
        order = np.argsort(done.columns[0], kind="stable")
        done = done.take(order)
        return done.columns[0], Delta(
            self.schema, done.columns[1:], done.nulls[1:], None, done.size
        )

    # What is not needed any more.

    def _forget_helpers(self) -> None:
        """Keep what the newest window and the next ones need, and what late rows may change."""
        if self.next is None:
            return
        before = self.next * self._body.step - self._body.width
        if self._body.window.lateness:
            horizon = self._source.horizon()
            before = before if horizon is None else min(before, horizon - self._body.width)
        self._store.forget(before)

    def _clean_up(self) -> None:
        """Remove the groups without rows in any helper part that is kept."""
        known = len(self._groups)
        live = self._store.live(known)
        live[self._now[0]] = True
        dead = known - int(live.sum())
        if dead < max(_MIN_DEAD_GROUPS, known // 4) or not self._body.keys:
            return
        kept = np.flatnonzero(live)
        keys = self._groups.keys(kept)
        self._groups = Groups(self._groups.schema)
        self._groups.numbers(keys)
        self._store.renumber(kept)
        self._now = np.searchsorted(kept, self._now[0]), self._now[1]


def _has_negative(rows: Delta) -> bool:
    return rows.multiplicity is not None and bool((rows.multiplicity < 0).any())


def _differing(old_groups: Ints, old: Delta, groups: Ints, new: Delta) -> tuple[Ints, Ints]:
    """Positions of the old rows that go, and of the new rows that come."""
    if len(old_groups) == len(groups) and bool((old_groups == groups).all()):
        at = np.flatnonzero(_unequal(old, slice(None), new, slice(None)))
        return at, at
    _, here, there = np.intersect1d(old_groups, groups, assume_unique=True, return_indices=True)
    same = ~_unequal(old, here, new, there)
    gone, came = np.ones(len(old_groups), np.bool_), np.ones(len(groups), np.bool_)
    gone[here[same]] = False
    came[there[same]] = False
    return np.flatnonzero(gone), np.flatnonzero(came)


def _unequal(a: Delta, at: Any, b: Delta, there: Any) -> Any:
    """Which rows differ in a value or in being NULL."""
    found = np.zeros(len(np.arange(a.size)[at]), np.bool_)
    for i in range(len(a.schema)):
        x, y = a.columns[i][at], b.columns[i][there]
        unequal = x != y
        if x.dtype == np.float64:
            unequal &= ~(np.isnan(x) & np.isnan(y))
        found |= unequal
        masks = [each.nulls[i] for each in (a, b)]
        if masks[0] is not None or masks[1] is not None:
            ours = False if masks[0] is None else masks[0][at] != 0
            theirs = False if masks[1] is None else masks[1][there] != 0
            found |= np.not_equal(ours, theirs)
    return found

"""Maintain a temporal view: compute the parts that are new, and again those whose sources changed.

takes  `Program` with a `PartQueries` body, the sources that have parts, a way to run a relation
gives  `Maintainer`; the view's rows are those of its newest part

NEXT is the part that comes next: it is computed as soon as the newest part of every source that it
reads is there. What changed earlier makes the parts that read it due again, in order; a part that
comes out as it was makes none of its own readers due.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from viewmill.algebra.relations import Relation
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.program.parts import PartInfo, PartQueries, PartQuery, PartReference, PartSource
from viewmill.program.program import Program

Rows = Mapping[str, Delta]  # by the name of the reference
Run = Callable[[Relation, Rows], Any]  # a relation and the rows of its parts in, Arrow out


class PartMaintainer:
    """Keeps the parts of one view. It is a `PartSource` for views above it."""

    def __init__(
        self,
        program: Program,
        parted: Mapping[str, PartSource],
        run: Run,
        dictionary: Dictionary,
    ) -> None:
        assert isinstance(program.body, PartQueries)
        self._program, self._body, self._sources = program, program.body, dict(parted)
        self._sources[self._body.view] = self
        self._run, self._dictionary = run, dictionary
        self.length = self._body.length
        self._parts: dict[int, Delta] = {}
        self._catalog: dict[int, PartInfo] = {}
        self.first: int | None = None
        self.next: int | None = None
        self._empty = Delta.empty(program.output)
        self._forget_pending()
        self._saved = (self.first, self.next)
        self._all_due = False  # a table that is read whole has changed
        self._memo: tuple[Any, Delta] | None = None
        self.computed = 0  # part queries since creation

    def _forget_pending(self) -> None:
        self._pending: dict[int, Delta] = {}
        self._dropped: set[int] = set()
        self._changed: set[int] = set()

    # The maintainer.

    def apply(self, input: str, delta: Delta) -> None:
        """Sources with parts say themselves what changed; one without makes all parts due."""
        if input not in self._sources:
            self._all_due = self._all_due or delta.size > 0

    def flush(self) -> Delta:
        """Bring the parts up to date; the newest part now minus the newest part before."""
        due = self._due()
        if self.first is None:
            self._start()
        self._recompute(due)
        self._roll_forward()
        self._all_due = False
        return self._difference()

    def has_moved(self) -> bool:
        """Whether parts changed or came, though the newest rows may be as before."""
        return bool(self._changed) or (self.first, self.next) != self._saved

    def commit(self) -> None:
        """Keep the new parts, and note when each changed."""
        self._parts |= self._pending
        self._saved = (self.first, self.next)
        self._forget_pending()

    def note(self, version: int) -> None:
        """Write the pending parts into the catalog; called before `commit`."""
        now = time.time_ns() // 1000
        for subscript, rows in self._pending.items():
            old = self._catalog.get(subscript)
            loaded = now if old is None else old.loaded
            count = int(rows.multiplicities().sum())
            self._catalog[subscript] = PartInfo(subscript, count, loaded, now, version)

    def rollback(self) -> None:
        """Forget the new parts."""
        self.first, self.next = self._saved
        self._all_due = False
        self._memo = None
        self._forget_pending()

    def contents(self) -> Delta:
        """The committed rows of the newest part."""
        _, following = self._saved
        return self._empty if following is None else self._parts.get(following - 1, self._empty)

    def load(self, state: str, rows: Iterable[Any]) -> None:
        """Parts are loaded by `restore`."""
        raise KeyError(state)

    def release(self, state: str) -> None:
        """Parts are what the view is."""
        raise KeyError(state)

    def snapshot(self, state: str) -> Iterator[Any]:
        """Parts are written by the mill."""
        raise KeyError(state)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes of all parts."""
        size = sum(column.nbytes for part in self._parts.values() for column in part.columns)
        return {"parts": size}

    # What is to be computed.

    def _due(self) -> list[int]:
        """The parts there are that read something that changed, as a heap."""
        if self.first is None or self.next is None:
            return []
        last = self.next - 1
        if self._all_due:
            return list(range(self.first, last + 1))
        found: set[int] = set()
        for name, source in self._sources.items():
            if source is not self:
                for subscript in source.changed_parts():
                    found.update(self._readers(name, subscript, last))
        return sorted(found)

    def _readers(self, source: str, subscript: int, last: int) -> Iterator[int]:
        """The parts up to `last` that read a part of a source."""
        assert self.first is not None
        for each in self._body.initialize.references:
            if each.source == source:
                yield from each.readers(subscript, self.first, self.first)
        for each in self._body.update.references:
            if each.source == source:
                yield from each.readers(subscript, self.first + 1, last)

    def _recompute(self, due: list[int]) -> None:
        """Parts in order; what changed makes later parts of the view due, what did not does not."""
        waiting = set(due)
        heapq.heapify(due)
        while due:
            i = heapq.heappop(due)
            waiting.discard(i)
            before = self.part(i)
            after = self._compute(i)
            if not self._is_change(before, after):
                continue
            self._keep(i, after)
            assert self.next is not None
            for each in self._readers(self._body.view, i, self.next - 1):
                if each not in waiting:
                    waiting.add(each)
                    heapq.heappush(due, each)

    def _is_change(self, before: Delta, after: Delta) -> bool:
        if before is after or not (before.size or after.size):
            return False
        return consolidate(concat(after.schema, [after, before.negated()])).size > 0

    def _keep(self, i: int, rows: Delta) -> None:
        self._pending[i] = rows
        self._changed.add(i)

    def _start(self) -> None:
        """Where the view begins: the newest part that can be computed, or the first to come."""
        first = self.starts_at()
        if first is not None:
            self.first = self.next = first

    def starts_at(self) -> int | None:
        """The first part, when no row has been seen yet: the one that reads the oldest part."""
        bounds = []
        for each in self._body.initialize.references:
            oldest = self._sources[each.source].first_part()
            at = None if oldest is None else each.high.first_at_least(oldest)
            if oldest is None or at is None:
                return None
            bounds.append(at)
        return max(bounds, default=None)

    def newest_computable(self) -> int | None:
        """The newest part for which INITIALIZE finds every part that it reads."""
        return self._limit(self._body.initialize)

    def _limit(self, query: PartQuery) -> int | None:
        bounds = []
        for each in query.references:
            if each.source != self._body.view:
                newest = self._sources[each.source].newest_part()
                last = None if newest is None else each.high.last_at_most(newest)
                if newest is None:
                    return None
                if last is not None:
                    bounds.append(last)
        return min(bounds, default=None)

    def _roll_forward(self) -> None:
        """Compute NEXT for as long as every part that it needs is there."""
        if self.first is None:
            return
        assert self.next is not None
        if self.next == self.first:
            limit = self._limit(self._body.initialize)
            if limit is None or limit < self.first:
                return
            self._roll(self.first)
        limit = self._limit(self._body.update)
        while limit is not None and self.next <= limit:
            if self._skip_gap(limit):
                continue
            self._roll(self.next)

    def _roll(self, i: int) -> None:
        rows = self._compute(i)
        self.next = i + 1
        if rows.size or i in self._parts:
            self._keep(i, rows)
        else:
            self._pending[i] = rows
            self._changed.add(i)

    def _skip_gap(self, limit: int) -> bool:
        """Where nothing is read and nothing comes of nothing, jump to the next part with rows."""
        assert self.next is not None
        if self._memo is None or self._memo[1].size or any(key for key in self._memo[0]):
            return False
        following = limit + 1
        for each in self._body.update.references:
            if each.low.multiplier == 0:
                return False
            low, _ = each.span_at(self.next)
            newest = self._sources[each.source].newest_part()
            found = [] if newest is None else self._sources[each.source].parts_within(low, newest)
            if found:
                start = each.high.first_at_least(found[0])
                assert start is not None
                following = min(following, start)
        if following <= self.next:
            return False
        self.next = following
        return True

    # Computing one part.

    def _compute(self, i: int) -> Delta:
        assert self.first is not None
        query = self._body.query_at(i, self.first)
        rows = {each.name: self._rows(each, i) for each in query.references}
        # Equal inputs, equal part: gaps cost nothing.
        key = [(name, id(each)) for name, each in rows.items() if each.size]
        if query is self._body.update and self._memo is not None and self._memo[0] == key:
            return self._memo[1]
        self.computed += 1
        table = self._run(query.query, rows)
        made = encode_columns(self._program.output, table, self._dictionary)
        made = made if made.size else self._empty
        for before in (self.part(i), self.part(i - 1)):
            if before.size == made.size and not self._is_change(before, made):
                made = before
                break
        if query is self._body.update:
            self._memo, self._held = (key, made), rows  # what is held keeps its id
        return made

    def _rows(self, reference: PartReference, i: int) -> Delta:
        source = self._sources[reference.source]
        low, high = reference.span_at(i)
        if low == high:
            return source.part(low)
        found = [source.part(each) for each in source.parts_within(low, high)]
        found = [each for each in found if each.size]
        return concat(found[0].schema, found) if found else source.part(high)

    def _difference(self) -> Delta:
        before, after = self.contents(), self.part(self.next - 1) if self.next else self._empty
        if before is after:
            return self._empty
        return consolidate(concat(self._program.output, [after, before.negated()]))

    # As a source of parts.

    def first_part(self) -> int | None:
        """The first part."""
        return self.first

    def newest_part(self) -> int | None:
        """The newest part, what is pending included."""
        return None if self.next is None or self.next == self.first else self.next - 1

    def changed_parts(self) -> Iterable[int]:
        """The parts computed since the last commit that came out different."""
        return self._changed

    def part(self, subscript: int) -> Delta:
        """The rows of a part."""
        found = self._pending.get(subscript)
        return self._parts.get(subscript, self._empty) if found is None else found

    def parts_within(self, low: int, high: int) -> list[int]:
        """The parts from low to high that have rows."""
        if high - low < 64:
            return [each for each in range(low, high + 1) if self.part(each).size]
        known = {*self._parts, *self._pending}
        return sorted(each for each in known if low <= each <= high and self.part(each).size)

    def catalog(self) -> list[PartInfo]:
        """The committed parts, ascending."""
        return [self._catalog[each] for each in sorted(self._catalog)]

    # Retention, writing and restoring.

    def forget(self, before: int) -> None:
        """Drop the parts before one."""
        for subscript in [each for each in self._parts if each < before]:
            del self._parts[subscript]
            self._catalog.pop(subscript, None)

    def committed_parts(self) -> Mapping[int, Delta]:
        """Every part that was computed, for a snapshot."""
        return self._parts

    def restore(
        self, first: int, following: int, parts: Mapping[int, Delta], catalog: Iterable[PartInfo]
    ) -> None:
        """The inverse: the state of a snapshot."""
        self._parts = dict(parts)
        self._catalog = {each.subscript: each for each in catalog}
        self.first, self.next = first, following
        self._saved = (first, following)


def subscripts_column(rows: Mapping[int, Delta]) -> Any:
    """The subscript of every row of the parts, one behind the other."""
    sizes = [part.size for part in rows.values()]
    return np.repeat(np.fromiter(rows, np.int64, len(rows)), sizes)

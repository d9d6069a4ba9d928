"""Maintain a temporal view: compute new parts, and recompute parts whose sources changed.

takes  `Program` with a `PartQueries` body, the sources that have parts, a function to run relations
gives  `Maintainer`; the view's rows are those of its newest part

NEXT is the next part: it is computed as soon as the newest part of every source that it reads
exists. A changed part of a source makes the parts that read it due, in order; a part whose
recomputation changes nothing makes none of its own readers due.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from viewmill.algebra.relations import Relation
from viewmill.deltas.arrow import encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product
from viewmill.program.kept_parts import KeptParts, is_change, is_same
from viewmill.program.parts import PartQueries, PartQuery, PartSource, PartsRead
from viewmill.program.program import Maintainer, Program

Rows = Mapping[str, list[Delta]]  # the parts that are not empty, or one; by name of the reference
Run = Callable[[Relation, Rows], Any]  # a relation and the rows of its parts in, Arrow out


class PartHold:
    """The parts of a source that a view still needs, so that the source does not drop them."""

    def __init__(self, maintainer: PartMaintainer, source: str) -> None:
        self._maintainer, self.source = maintainer, source

    @property
    def needs_from(self) -> int:
        """The first part of the source that the next refresh reads."""
        return self._maintainer.needs_from(self.source)


class PartMaintainer(KeptParts, Maintainer):
    """Maintains the parts of one view. It is a `PartSource` for views above it."""

    def __init__(
        self,
        program: Program,
        parted: Mapping[str, PartSource],
        run: Run,
        dictionary: Dictionary,
        version: Callable[[], int],
        is_deferred: Callable[[], bool] = lambda: False,
        is_dropped: Callable[[], bool] = lambda: False,
    ) -> None:
        assert isinstance(program.body, PartQueries)
        super().__init__(program.output, program.body.length, version)
        self._body = program.body
        self._sources: dict[str, PartSource] = {**parted, self._body.view: self}
        self._run, self._dictionary = run, dictionary
        self._all_due = False  # a table that is read whole has changed
        self._is_deferred, self._is_dropped = is_deferred, is_dropped
        self._seen = 0  # the version of the last refresh
        self._memo: tuple[Any, Delta] | None = None
        self._held: Rows = {}
        self.computed = 0  # part queries since creation
        self._holds = [PartHold(self, name) for name in self._sources]
        for hold in self._holds:
            self._sources[hold.source].holders.add(hold)

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Mark all parts as due if a source without parts changed; others are asked in `flush`."""
        if input not in self._sources:
            self._all_due = self._all_due or delta.size > 0

    def flush(self) -> Delta:
        """Bring the parts up to date; gives the newest part minus the newest part before."""
        if self._all_due:
            self._memo = None
        due = self._due()
        if self.first is None:
            self._start()
        self._recompute(due)
        self._roll_forward()
        self._all_due = False
        return self.difference()

    def rollback(self) -> None:
        """Drop the uncommitted parts."""
        super().rollback()
        self._all_due = False
        self._memo = None

    def take_over(self, old: Any, translate: Callable[[Delta], Delta]) -> None:
        """Continue with the parts of a maintainer before, with other ids of strings."""
        super().take_over(old, translate)
        self._seen, self.computed = old._seen, old.computed

    # What is to be computed.

    def _due(self) -> list[int]:
        """The existing parts that read something changed, as a heap."""
        if self.first is None or self.next is None:
            return []
        last = self.next - 1
        if self._all_due:
            return list(range(self.first_rebuilt(), last + 1))
        found: set[int] = set()
        for name, source in self._sources.items():
            if source is not self:
                for subscript in self._changed(source):
                    found.update(self._readers(name, subscript, last))
        for subscript in self._ahead:
            found.update(self._readers(self._body.view, subscript, last))
        return sorted(found)

    def _changed(self, source: PartSource) -> Iterable[int]:
        """The parts of a source that changed since this view was last refreshed."""
        if not self._is_deferred():
            return source.changed_parts()
        later = {each.subscript for each in source.catalog() if each.version > self._seen}
        return later.union(source.changed_parts())

    def needs_from(self, source: str) -> int:
        """The oldest part of a source that the parts to come read.

        A join needs what one side has until the other side has come, and cannot change any more,
        however long that takes.
        """
        if self._is_dropped():
            return sys.maxsize
        if self.first is None or self.next is None:
            return -sys.maxsize
        first = min([self.next, *self._due(), self._first_changing()])
        following = max(first, self.first + 1)
        read = [self._reads_from(each, first) for each in self._references(first, source)]
        read += [self._reads_from(each, following) for each in self._references(following, source)]
        return min(read, default=sys.maxsize)

    def _first_changing(self) -> int:
        """The oldest part that reads something that may still change."""
        assert self.first is not None
        assert self.next is not None
        found = [self.next]
        for each in self._body.update.references:
            source = self._sources[each.source]
            oldest = None if source is self else source.oldest_changing()
            at = None if oldest is None else each.high.first_at_least(oldest)
            found += [] if at is None else [at]
        return max(self.first, min(found))

    def oldest_changing(self) -> int | None:
        """The oldest part that may still change; None if there is none yet."""
        return None if self.first is None else self._first_changing()

    def _reads_from(self, reference: PartsRead, i: int) -> int:
        """The oldest part that part i must find; one that reads all of them takes what is kept."""
        reads_all = reference.low.multiplier == 0 and not self._is_deferred()
        return (reference.high if reads_all else reference.low).at(i)

    def _references(self, i: int, source: str) -> list[PartsRead]:
        """The references of part i to a source."""
        assert self.first is not None
        query = self._body.query_at(i, self.first)
        return [each for each in query.references if each.source == source]

    def commit(self) -> None:
        """Commit the new parts."""
        super().commit()
        self._seen = self._version()

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
        """Recompute due parts in order; a changed part makes its readers in the view due."""
        waiting = set(due)
        heapq.heapify(due)
        while due:
            i = heapq.heappop(due)
            waiting.discard(i)
            before = self.part(i)
            after = self._compute(i)
            if not is_change(before, after):
                continue
            self.keep(i, after)
            assert self.next is not None
            for each in self._readers(self._body.view, i, self.next - 1):
                if each not in waiting:
                    waiting.add(each)
                    heapq.heappush(due, each)

    def _start(self) -> None:
        """Start the view at its first part, once it can be computed: older rows may come first."""
        first, newest = self.starts_at(), self.newest_computable()
        if first is not None and newest is not None and first <= newest:
            self.begin(first)

    def first_rebuilt(self) -> int:
        """The oldest part whose sources are all still within RETENTION."""
        assert self.first is not None
        start = self.first
        for each in self._body.update.references:
            source = self._sources[each.source]
            oldest = None if source is self else source.oldest_shown()
            at = None if oldest is None else each.low.first_at_least(oldest)
            start = start if at is None else max(start, at)
        return start

    def make_all_due(self) -> None:
        """Make all parts due: a table that is read as a whole has changed."""
        self._all_due = True

    def starts_at(self) -> int | None:
        """The first part of a new view: the one that reads the oldest parts of its sources.

        A source without rows whose time moves on anyway need not be waited for.
        """
        bounds = []
        for each in self._body.initialize.references:
            source = self._sources[each.source]
            oldest = source.first_part()
            at = None if oldest is None else each.high.first_at_least(oldest)
            if at is not None:
                bounds.append(at)
            elif oldest is not None or source.newest_part() is None:
                return None
        return max(bounds, default=None)

    def newest_computable(self) -> int | None:
        """The newest part for which all parts that INITIALIZE reads exist."""
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
        """Compute NEXT as long as every part that it reads exists."""
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
        self.keep(i, rows)

    def _skip_gap(self, limit: int) -> bool:
        """Skip parts without input if an empty input gives an empty part."""
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
        # Equal inputs give an equal part, so gaps cost nothing.
        key = [(n, id(each)) for n, found in rows.items() for each in found if each.size]
        if query is self._body.update and self._memo is not None and self._memo[0] == key:
            return self._memo[1]
        self.computed += 1
        table = self._run(query.query, rows)
        made = encode_columns(self.schema, table, self._dictionary)
        made = made if made.size else self._empty
        if is_same(self.part(i - 1), made):
            made = self.part(i - 1)  # as in a gap, where helpers carry what they have
        if query is self._body.update:
            self._memo, self._held = (key, made), rows  # what is held keeps its id
        return made

    def _rows(self, reference: PartsRead, i: int) -> list[Delta]:
        source = self._sources[reference.source]
        low, high = reference.span_at(i)
        if low == high:
            return [source.part(low)]
        return [source.part(each) for each in source.parts_within(low, high)] or [source.part(high)]

    def oldest_shown(self) -> int | None:
        """The oldest part for which every source still has the newest part that it reads."""
        bounds = []
        for each in self._body.update.references:
            if each.source != self._body.view:
                oldest = self._sources[each.source].oldest_shown()
                at = None if oldest is None else each.high.first_at_least(oldest)
                bounds += [] if at is None else [at]
        return max(bounds, default=None)

    def reopen(self) -> None:
        """Apply the changes since the checkpoint."""
        self.flush()
        self.note_reopened()

"""Maintain MATCH_RECOGNIZE: the view shows all matches of the rows there are.

takes  `Program` with a `PatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`

Per group the matches are kept with the cuts between them: rows from which one could start anew,
because no later row changes what comes before. A change in a group is matched again from the last
cut that was certain before the changed row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from viewmill.algebra.relations import Relation
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.kernels.match_kernel import find_matches
from viewmill.kernels.pattern_kernels import compiled
from viewmill.kernels.pattern_runs import NEVER, Column, Ints, RunsPart
from viewmill.kernels.patterns import PatternMaintainer, _column, _dtype
from viewmill.program.patterns import MATCHES

_NONE = np.empty(0, np.int64)


class Cut(NamedTuple):
    """All rows up to `moment` are done with, which was certain at `known`."""

    moment: int
    known: int
    matches: int
    last: tuple[tuple[Any, int], ...]  # of the row at `moment`: what the next one compares with


class Match(NamedTuple):
    """The number of its rows, and for each measure an integer, a float and a count."""

    rows: int
    integers: tuple[int, ...]
    floats: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass
class GroupMatches:
    """What is known of one group."""

    matches: list[Match] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)


class MatchMaintainer(PatternMaintainer):
    """The matches of every group."""

    has_parts = False  # the view is one bag

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._by_group: dict[int, GroupMatches] = {}
        self._before_batch: dict[int, GroupMatches | None] = {}
        self._index: dict[int, RunsPart] = {}
        self._shown_now = self._empty
        self._change = self._empty

    # The maintainer.

    def flush(self) -> Delta:
        """Match the groups again whose rows changed."""
        since: dict[int, int] = {}
        for rows in (each for changes in self._applied.values() for each in changes):
            moments = rows.columns[self._body.time]
            for group, moment in zip(self._numbers(rows).tolist(), moments.tolist(), strict=True):
                since[group] = min(moment, since.get(group, moment))
        self._applied = {}
        self._change = self._match_again(since)
        return self._change

    def fill(self) -> None:
        """Match all rows there are."""
        first, newest = self._source.first_part(), self._source.newest_part()
        if first is None or newest is None:
            return
        groups: set[int] = set()
        for part in self._source.parts_within(first, newest):
            groups.update(self._indexed(part).groups.tolist())
        self._change = self._match_again(dict.fromkeys(groups, NEVER))

    def commit(self) -> None:
        """Keep the new matches."""
        if self._change.size:
            whole = concat(self.schema, [self._shown_now, self._change])
            self._shown_now = consolidate(whole)
        self._change = self._empty
        self._before_batch = {}

    def rollback(self) -> None:
        """Forget the new matches."""
        self._applied = {}
        for group, before in self._before_batch.items():
            if before is None:
                self._by_group.pop(group, None)
            else:
                self._by_group[group] = before
        self._before_batch = {}
        self._change = self._empty

    def contents(self) -> Delta:
        """All matches."""
        return self._shown_now

    def matched(self) -> Delta:
        """The same with the batch under way."""
        return consolidate(concat(self.schema, [self._shown_now, self._change]))

    def has_moved(self) -> bool:
        """There are no parts to see."""
        return False

    def forget(self) -> None:
        """Drop the order of parts that are gone."""
        first = self._source.first_part()
        for part in [each for each in self._index if first is not None and each < first]:
            del self._index[part]

    def state_bytes(self) -> Mapping[str, int]:
        """About what the matches take."""
        size = sum(column.nbytes for column in self._shown_now.columns)
        return {"matches": size, "cuts": sum(64 * len(g.cuts) for g in self._by_group.values())}

    # Matching.

    def _match_again(self, since: Mapping[int, int]) -> Delta:
        starts = {group: self._restart(group, moment) for group, moment in since.items()}
        removed: list[tuple[int, Match]] = []
        for group, cut in starts.items():
            kept = 0 if cut is None else cut.matches
            known = self._by_group.get(group)
            self._before_batch.setdefault(group, known)
            removed += [(group, each) for each in (known.matches[kept:] if known else [])]
        added = self._matched(starts)
        gone, came = self._rows_of(removed), self._rows_of(added)
        return consolidate(concat(self.schema, [came, gone.negated()]))

    def _restart(self, group: int, moment: int) -> Cut | None:
        """The last cut that was certain before a moment."""
        known = self._by_group.get(group)
        cuts = [] if known is None else known.cuts
        return next((each for each in reversed(cuts) if each.known < moment), None)

    def _matched(self, starts: Mapping[int, Cut | None]) -> list[tuple[int, Match]]:
        """Match each group from its cut on; note what is known of it then."""
        numbers = np.array(sorted(starts), np.int64)
        cuts = [starts[each] for each in numbers.tolist()]
        moments = np.array([NEVER if cut is None else cut.moment for cut in cuts], np.int64)
        rows, group_of = self._rows_since(numbers, moments)
        begin = np.searchsorted(group_of, np.arange(len(numbers) + 1)).astype(np.int64)
        last = tuple(
            self._last(i, position, cuts) for position, i in enumerate(self._body.read_before)
        )
        order = np.arange(rows.size, dtype=np.int64)
        has_rows = np.flatnonzero(begin[1:] > begin[:-1])
        steps = np.concatenate([begin[has_rows], begin[-1:]])
        chosen = tuple((words[has_rows], mask[has_rows]) for words, mask in last)
        bits, arguments = self._steps(rows, order, steps, chosen) if rows.size else (_NONE, [])
        found: list[tuple[int, Match]] = []
        for i, number in enumerate(numbers.tolist()):
            span = slice(int(begin[i]), int(begin[i + 1]))
            found += self._match_group(number, cuts[i], rows, bits, arguments, span)
        return found

    def _last(self, i: int, position: int, cuts: list[Cut | None]) -> Column:
        values = [(0, 1) if cut is None else cut.last[position] for cut in cuts]
        words = np.array([word for word, _ in values], _dtype(self._schema, i))
        return words, np.array([mask for _, mask in values], np.uint8)

    def _match_group(
        self, number: int, cut: Cut | None, rows: Delta, bits: Ints, arguments: Any, span: slice
    ) -> list[tuple[int, Match]]:
        known = self._by_group.get(number) or GroupMatches()
        kept = 0 if cut is None else cut.matches
        cuts = known.cuts[: known.cuts.index(cut) + 1] if cut is not None else []
        moments = rows.columns[self._body.time][span]
        made, new_cuts = self._found(bits[span])
        own = [(words[span], mask[span]) for words, mask in arguments]
        matches = [self._measure(each, own) for each in made]
        for after, certain, count in new_cuts:
            # Rows of one moment stay together, so that a cut can be said as a moment.
            if after < len(moments) and moments[after] == moments[after - 1]:
                continue
            last = self._values(rows, span.start + after - 1)
            _add_cut(cuts, Cut(int(moments[after - 1]), int(moments[certain]), kept + count, last))
        self._by_group[number] = GroupMatches([*known.matches[:kept], *matches], cuts)
        return [(number, each) for each in matches]

    def _values(self, rows: Delta, row: int) -> tuple[tuple[Any, int], ...]:
        columns = (_column(rows, i, np.array([row])) for i in self._body.read_before)
        return tuple((words[0].item(), int(mask[0])) for words, mask in columns)

    def _found(self, bits: Ints) -> tuple[list[list[int]], list[list[int]]]:
        size = len(bits)
        matches = np.zeros((size + 1, len(self._enter) + 1), np.int64)
        cuts, counts = np.zeros((size + 1, 3), np.int64), np.zeros(3, np.int64)
        compiled(find_matches)(
            np.ascontiguousarray(bits), self._enter, self._stay, matches, cuts, counts
        )
        return matches[: counts[1]].tolist(), cuts[: counts[2]].tolist()

    def _measure(self, borders: list[int], arguments: list[Column]) -> Match:
        integers, floats, counts = [], [], []
        for m, measure in enumerate(self._body.measures):
            phase = measure.phase
            low, high = (borders[0], borders[-1]) if not phase else borders[phase - 1 : phase + 1]
            words, mask = arguments[measure.argument]
            value, count = _aggregate(measure.function, words[low:high], mask[low:high])
            integers.append(0 if self._is_float[m] else int(value))
            floats.append(float(value) if self._is_float[m] else 0.0)
            counts.append(count)
        rows = borders[-1] - borders[0]
        return Match(rows, tuple(integers), tuple(floats), tuple(counts))

    # Rows.

    def _indexed(self, part: int) -> RunsPart:
        """The rows of a part by group and time."""
        old = self._index.get(part)
        rows = self._source.part(part)
        if old is None or old.source is not rows:
            order, starts, groups = self._ordered(part, None)
            old = RunsPart(groups, None, (), rows, order, starts)  # type: ignore[arg-type]
            self._index[part] = old
        return old

    def _rows_since(self, numbers: Ints, moments: Ints) -> tuple[Delta, Ints]:
        """The rows of groups after a moment each, by group and time; and whose each is."""
        newest, first = self._source.newest_part(), self._source.first_part()
        pieces: list[Delta] = []
        owners: list[Ints] = []
        if len(numbers) and newest is not None and first is not None:
            unit = self.length * 1_000_000
            low = max(first, int(moments.min()) // unit) if moments.min() != NEVER else first
            for part in self._source.parts_within(low, newest):
                found = self._indexed(part)
                is_here, at = found.find(numbers)
                for i in np.flatnonzero(is_here).tolist():
                    rows = found.order[found.starts[at[i]] : found.starts[at[i] + 1]]
                    rows = rows[found.source.columns[self._body.time][rows] > moments[i]]
                    pieces.append(found.source.take(rows))
                    owners.append(np.full(len(rows), i, np.int64))
        if not pieces:
            return Delta.empty(self._schema), _NONE
        whole, owner = concat(self._schema, pieces), np.concatenate(owners)
        by = np.argsort(owner, kind="stable")
        return whole.take(by), owner[by]

    # Showing.

    def _rows_of(self, found: Iterable[tuple[int, Match]]) -> Delta:
        pairs = list(found)
        if not pairs:
            return self._empty
        groups = np.array([group for group, _ in pairs], np.int64)
        matches = [match for _, match in pairs]
        width = (len(pairs), len(self._functions))
        integers = np.array([each.integers for each in matches], np.int64).reshape(width)
        floats = np.array([each.floats for each in matches], np.float64).reshape(width)
        counts = np.array([each.counts for each in matches], np.int64).reshape(width)
        rows = np.array([each.rows for each in matches], np.int64)
        return self._measured(groups, rows, integers, floats, counts)

    def _shown(self, found: Delta) -> Delta:
        outer: Relation | None = self._body.outer
        assert outer is not None
        inner = self._run(self._body.show, {MATCHES: decode_delta(found, self._dictionary)})
        return encode_columns(self.schema, self._run(outer, {MATCHES: inner}), self._dictionary)


def _add_cut(cuts: list[Cut], cut: Cut) -> None:
    """Of cuts after the same match, the first and the last are enough."""
    if len(cuts) > 1 and cuts[-1].matches == cuts[-2].matches == cut.matches:
        cuts[-1] = cut
    else:
        cuts.append(cut)


def _aggregate(function: str, words: Any, mask: Any) -> tuple[Any, int]:
    """The value and how many rows have one; of first and last, -1 tells a NULL."""
    if function in ("first", "last"):
        at = 0 if function == "first" else -1
        return (0, -1) if not len(words) or mask[at] else (words[at], 1)
    there = words[mask == 0]
    if not len(there) or function == "count":
        return 0, len(there)
    if function == "sum":
        return (sum(there.tolist()), len(there))
    return (there.min() if function == "min" else there.max()), len(there)

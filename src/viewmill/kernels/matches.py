"""Maintain MATCH_RECOGNIZE: the view shows all matches of the rows there are.

takes  `Program` with a `PatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`

Per group the matches are kept with the cuts between them: rows from which one could start anew,
because no later row changes what comes before. A change in a group is matched again from the last
cut that was certain before the changed row. All groups of a batch are matched in one loop.

Retention ends rows, not matches: the view shows what the rows since its creation have matched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Product
from viewmill.errors import Overflow
from viewmill.kernels.match_chains import Chains
from viewmill.kernels.match_kernel import match_groups, measure_matches
from viewmill.kernels.match_tail import MatchTail
from viewmill.kernels.pattern_kernels import compiled
from viewmill.kernels.pattern_runs import NEVER, Column, Ints, Runs, RunsPart, chosen_rows
from viewmill.kernels.pattern_sweep import PatternSweep, Steps, column_at
from viewmill.kernels.patterns import PatternMaintainer

_NONE = np.empty(0, np.int64)
_MAX_UNMERGED_ROWS = 1 << 20  # rows of changes that are kept unmerged until a read


class MatchMaintainer(PatternMaintainer):
    """The matches of every group."""

    has_parts = False  # the view is one bag

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sweep = PatternSweep([self._body], self._schema)
        self._chains = Chains(self._measured_width(), len(self._body.read_before))
        self.tail = MatchTail(self._schema, self._body.time, len(self._body.read_before))
        self._coming: list[Delta] = []
        self._index: dict[int, RunsPart] = {}
        self._pieces: list[Delta] = []
        self._change = self._empty

    def _measured_width(self) -> int:
        """How many values are kept of a match."""
        return self._width

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Stage inserted and deleted rows; rows that retention dropped are ignored."""
        for part, change in self._source.split(self._staged(delta)):
            if self._is_news(part):
                self._coming.append(change)

    def flush(self) -> Delta:
        """Match the groups again whose rows changed."""
        groups, since = [_NONE], [_NONE]
        for rows in self._coming:
            groups.append(self._numbers(rows))
            since.append(rows.columns[self._body.time].astype(np.int64))
        self._coming = []
        self._change = self._match_again(*_earliest(np.concatenate(groups), np.concatenate(since)))
        return self._change

    def fill(self) -> None:
        """Match all rows there are, those of the tail included."""
        groups = [_NONE, self.tail.groups]
        groups += [self._indexed(part).groups for part in self._parts_since(NEVER)]
        numbers = np.unique(np.concatenate(groups))
        self._change = self._match_again(numbers, np.full(len(numbers), NEVER, np.int64))

    def commit(self) -> None:
        """Keep the new matches."""
        if self._body.own_parts:
            self._source.commit(self._version())
        if self._change.size:
            self._pieces.append(self._change)
            first, *others = (each.size for each in self._pieces)
            if sum(others) > first + _MAX_UNMERGED_ROWS:  # so that a batch costs what it brings
                self.contents()
        self._change = self._empty
        self._chains.commit()
        self._settle()

    def rollback(self) -> None:
        """Forget the new matches."""
        if self._body.own_parts:
            self._source.rollback()
        self._coming = []
        self._chains.rollback()
        self._change = self._empty

    def contents(self) -> Delta:
        """All matches."""
        if len(self._pieces) > 1:
            self._pieces = [consolidate(concat(self.schema, self._pieces))]
        return self._pieces[0] if self._pieces else self._empty

    def matched(self) -> Delta:
        """All matches, including those of the uncommitted batch."""
        return consolidate(concat(self.schema, [self.contents(), self._change]))

    def has_moved(self) -> bool:
        """False: matches have no parts."""
        return False

    def forget_order(self) -> None:
        """Parts are cut anew: forget the order of their rows."""
        self._index.clear()

    def forget(self) -> None:
        """Drop the order of parts that are gone."""
        for part in [each for each in self._index if each < self.tail.end]:
            del self._index[part]

    def state_bytes(self) -> Mapping[str, int]:
        """What the matches take, and the rows that may become some."""
        own = self._own_rows()
        return {"matches": self._chains.nbytes, "tail": self.tail.nbytes, **own}

    # What retention ends.

    def start_at(self, part: int | None) -> None:
        """Begin with the rows of this part; None: with all there are."""
        self.tail.end = NEVER if part is None else part

    @property
    def needs_from(self) -> int:
        """The first part whose rows the source must keep."""
        return self.tail.end

    def settled(self) -> Delta:
        """The matches that nothing can change any more."""
        if not self._chains.ended:
            return self._empty
        live = self._rows_of(self._chains.live())
        return consolidate(concat(self.schema, [self.matched(), live.negated()]))

    def keys_of(self, groups: Ints) -> Delta:
        """The keys of groups."""
        return self._groups.keys(groups)

    def restore_matches(
        self,
        end: int,
        settled: Delta,
        rows: Delta,
        keys: Delta | int,
        going_on: tuple[Ints, Ints, Ints],
        lasts: list[Column],
    ) -> None:
        """Begin behind matches that stay, with rows that ended.

        Groups go on after a moment, with the rows after another, behind so many matches.
        """
        if isinstance(keys, int):  # so many, without columns
            keys = Delta(self._groups.schema, (), (), None, keys)
        groups = self._numbers_of(keys)
        numbers = self._numbers(rows)
        self.make_room()
        self._pieces, tail = [settled], self.tail
        self._chains.ended = settled.size
        tail.moment[groups], tail.context[groups], tail.number[groups] = going_on
        for j, (words, mask) in enumerate(lasts):
            tail.last[groups, j], tail.mask[groups, j] = words.view(np.int64), mask
        by = np.argsort(numbers, kind="stable")
        tail.rows, tail.groups, tail.end = rows.take(by), numbers[by], end

    def make_room(self) -> None:
        """Grow the arrays for new groups."""
        self._chains.make_room(len(self._groups))
        self.tail.make_room(len(self._groups))

    def _settle(self) -> None:
        """Take the rows that have ended into the tail, as far as they may still match."""
        oldest, limit = self._source.oldest_shown(), self._source.horizon()
        first = self._source.first_part()
        if oldest is None or limit is None or first is None or oldest <= self.tail.end:
            return
        ended = self._source.parts_within(max(first, self.tail.end), oldest - 1)
        groups = self.tail.add([self._indexed(part) for part in ended], oldest)
        if not len(groups):
            return
        self.make_room()
        cuts = self._chains.settle(groups, self._source.end_of(limit - 1))
        self._settle_at(groups[cuts >= 0], cuts[cuts >= 0])

    def _settle_at(self, groups: Ints, cuts: Ints) -> None:
        kept = self._chains.cuts
        self.tail.settle(groups, kept["moment"][cuts], kept["last"][cuts], kept["mask"][cuts])

    # Matching.

    def _match_again(self, groups: Ints, since: Ints) -> Delta:
        """Match groups from a moment each on; what that changes."""
        if not len(groups):
            return self._empty
        self.make_room()
        cuts, gone = self._chains.cut_back(groups, since)
        removed = self._rows_of(gone)
        moments = self.tail.moment[groups]
        moments[cuts >= 0] = self._chains.cuts["moment"][cuts[cuts >= 0]]
        rows, owner = self._rows_since(groups, moments)
        if not rows.size:
            return removed.negated()
        has_rows = np.unique(owner)
        starts = np.searchsorted(owner, [*has_rows, len(groups)]).astype(np.int64)
        lasts = self._lasts(groups[has_rows], cuts[has_rows])
        order = np.arange(rows.size, dtype=np.int64)
        steps = self._sweep.steps(rows, order, starts, [lasts], [self.compute_steps])
        came = self._rows_of(self._match(groups[has_rows], rows, starts, steps))
        if not removed.size:
            return came
        return consolidate(concat(self.schema, [came, removed.negated()]))

    def _match(self, groups: Ints, rows: Delta, starts: Ints, steps: Steps) -> Ints:
        """Match the rows of groups; the new matches."""
        chains, sweep = self._chains, self._sweep
        matches, cuts = chains.matches, chains.cuts
        matches.reserve(rows.size)
        cuts.reserve(rows.size)
        moments = rows.columns[self._body.time].astype(np.int64)
        borders = np.empty((rows.size, self._last_phase + 1), np.int64)
        last_match, last_cut = chains.last_match[groups], chains.last_cut[groups]
        sizes = np.array([matches.size, cuts.size], np.int64)
        count = compiled(match_groups)(
            starts, steps.bits, moments, sweep.enter, sweep.stay, last_match, last_cut,
            borders, matches["group"], matches["before"], cuts["row"], cuts["known"],
            cuts["match"], cuts["before"], sizes,
        )  # fmt: skip
        chains.last_match[groups], chains.last_cut[groups] = last_match, last_cut
        new, new_cuts = np.arange(matches.size, sizes[0]), slice(cuts.size, sizes[1])
        matches["group"][new] = groups[matches["group"][new]]
        matches["rows"][new] = borders[:count, -1] - borders[:count, 0]
        self._measure(borders[:count], steps, slice(matches.size, int(sizes[0])))
        at = cuts["row"][new_cuts]
        cuts["moment"][new_cuts] = moments[at]
        for j, i in enumerate(self._body.read_before):
            words, mask = column_at(rows, i, at)
            cuts["last"][new_cuts, j], cuts["mask"][new_cuts, j] = words.view(np.int64), mask
        matches.size, cuts.size = int(sizes[0]), int(sizes[1])
        chains.note_matches(count)
        return new

    def _measure(self, borders: Ints, steps: Steps, new: slice) -> None:
        matches, sweep = self._chains.matches, self._sweep
        failed = compiled(measure_matches)(
            borders, sweep.functions, sweep.offsets, sweep.of_phase, sweep.arguments,
            sweep.is_float, steps.integers, steps.floats, steps.nulls, matches["integers"][new],
            matches["floats"][new], matches["counts"][new],
        )  # fmt: skip
        if failed >= 0:
            raise Overflow(f'a sum of view "{self._body.view}" does not fit BIGINT')

    def _lasts(self, groups: Ints, cuts: Ints) -> tuple[Column, ...]:
        """The values of the rows that groups start behind."""
        found = []
        for j, i in enumerate(self._body.read_before):
            words, mask = self.tail.last[groups, j], self.tail.mask[groups, j]
            is_cut = cuts >= 0
            words[is_cut] = self._chains.cuts["last"][cuts[is_cut], j]
            mask[is_cut] = self._chains.cuts["mask"][cuts[is_cut], j]
            found.append((words.view(self._word_type(i)), mask))
        return tuple(found)

    # Rows.

    def _parts_since(self, moment: int) -> list[int]:
        """The parts behind the tail, from that of a moment on."""
        first, newest = self._source.first_part(), self._source.newest_part()
        if first is None or newest is None:
            return []
        low = first if moment == NEVER else self._source.part_of(moment)
        found: list[int] = self._source.parts_within(max(low, self.tail.end), newest)
        return found

    def _indexed(self, part: int) -> RunsPart:
        """The rows of a part by group and time."""
        old = self._index.get(part)
        rows = self._source.part(part)
        if old is None or old.source is not rows:
            order, starts, groups = self.ordered(part)
            runs = Runs.empty(0, 0)
            old = self._index[part] = RunsPart(groups, runs, (), rows, order, starts)
        return old

    def _rows_since(self, groups: Ints, moments: Ints) -> tuple[Delta, Ints]:
        """The rows of groups after a moment each, by group and time; and whose each is."""
        ended, owner = self.tail.find(groups, moments)
        pieces, owners = ([ended], [owner]) if ended.size else ([], [])
        for part in self._parts_since(int(moments.min())):
            found = self._indexed(part)
            looking = np.flatnonzero(moments < self._source.end_of(part))
            is_here, at = found.find(groups[looking])
            order, starts, _ = chosen_rows(found.order, found.starts, found.groups, at[is_here])
            owner = np.repeat(looking[is_here], np.diff(starts))
            is_later = found.source.columns[self._body.time][order] > moments[owner]
            if is_later.any():
                pieces.append(found.source.take(order[is_later]))
                pieces[-1].multiplicity = None  # the order has each as often as it is there
                owners.append(owner[is_later])
        if not pieces:
            return Delta.empty(self._schema), _NONE
        whole, owner = concat(self._schema, pieces), np.concatenate(owners)
        if (owner[1:] >= owner[:-1]).all():
            return whole, owner
        by = np.argsort(owner, kind="stable")
        return whole.take(by), owner[by]

    # Showing.

    def _rows_of(self, at: Ints) -> Delta:
        if not len(at):
            return self._empty
        matches = self._chains.matches
        values = (matches[name][at] for name in ("integers", "floats", "counts"))
        return self._measured(matches["group"][at], matches["rows"][at], *values)


def _earliest(groups: Ints, moments: Ints) -> tuple[Ints, Ints]:
    """Each group once, with the earliest of its moments."""
    if not len(groups):
        return groups, moments
    by = np.lexsort((moments, groups))
    groups, moments = groups[by], moments[by]
    is_first = np.concatenate([[True], groups[1:] != groups[:-1]])
    return groups[is_first], moments[is_first]

"""The runs of a pattern view by part, and where each group had its newest row.

takes  the runs of groups after a part
gives  the runs that groups bring to a part, the later parts that a change concerns

What a batch brings lies beside what is kept until it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from viewmill.kernels.pattern_runs import (
    NEVER,
    Carried,
    Column,
    Groups,
    Ints,
    Runs,
    RunsPart,
    join_runs,
)

_COMPARED = 10_000  # groups that are compared one by one; of more, all count as changed


class KeptRuns:
    """The runs of each part, for the groups that have a row in it."""

    def __init__(self, groups: Groups, width: int, read_before: Sequence[type]) -> None:
        self._groups, self._width = groups, width
        self._read_before = read_before  # the words of the columns whose last value is kept
        self._latest = np.full(0, NEVER, np.int64)  # by group, the newest part with a row of it
        # By group, the newest part with a row of it among those that cannot change any more.
        self._settled = np.full(0, NEVER, np.int64)
        self.settled_to = NEVER
        self._runs: dict[int, RunsPart] = {}
        self._new_runs: dict[int, RunsPart] = {}
        self._undo: list[tuple[Ints, Ints]] = []
        self._forgotten = 0  # times that parts were thinned out
        self._thin: set[int] = set()

    def __contains__(self, part: int) -> bool:
        return part in self._runs

    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way here."""
        return bool(self._new_runs)

    @property
    def nbytes(self) -> int:
        """What is held."""
        return sum(each.nbytes for each in self._runs.values())

    def find(self, part: int) -> RunsPart | None:
        """The runs after a part, with the batch under way."""
        found = self._new_runs.get(part)
        return self._runs.get(part) if found is None else found

    def make_room(self) -> None:
        """Grow the arrays for new groups."""
        known = len(self._latest)
        if len(self._groups) > known:
            more = np.full(max(2 * known, len(self._groups)) - known, NEVER, np.int64)
            self._latest = np.concatenate([self._latest, more])
            self._settled = np.concatenate([self._settled, more])

    def commit(self) -> None:
        """Keep the new runs."""
        self._runs |= self._new_runs
        for part in [each for each in self._new_runs if not len(self._new_runs[each].groups)]:
            del self._runs[part]
        self._new_runs, self._undo = {}, []

    def rollback(self) -> None:
        """Forget the new runs."""
        for groups, latest in reversed(self._undo):
            self._latest[groups] = latest
        self._new_runs, self._undo = {}, []

    # What a part begins with, and what it leaves.

    def before(self, part: int, groups: Ints) -> tuple[Runs, tuple[Column, ...]]:
        """The runs of groups before a part, and the values of their last rows."""
        self.make_room()
        runs = Runs.empty(len(groups), self._width)
        last: list[Column] = [
            (np.zeros(len(groups), word), np.ones(len(groups), np.uint8))
            for word in self._read_before
        ]
        pieces: list[Runs] = []
        places: list[Ints] = []
        for found, positions, at in self._carriers(part, groups):
            pieces.append(found.runs.take(at))
            places.append(positions)
            for (words, mask), (theirs, their_mask) in zip(last, found.last, strict=True):
                words[positions], mask[positions] = theirs[at], their_mask[at]
        if pieces:
            missing = np.ones(len(groups), np.bool_)
            missing[np.concatenate(places)] = False
            places.append(np.flatnonzero(missing))
            pieces.append(Runs.empty(len(places[-1]), self._width))
            by = np.empty(len(groups), np.int64)
            by[np.concatenate(places)] = np.arange(len(groups))
            runs = join_runs(pieces)
            if not (by == np.arange(len(by))).all():
                runs = runs.take(by)
        return runs, tuple(last)

    def _carriers(self, part: int, groups: Ints) -> Iterable[tuple[RunsPart, Ints, Ints]]:
        """The parts with the last rows of groups before a part: which groups, and where."""
        latest = self._latest[groups]
        positions = np.flatnonzero(latest < part)
        for each in np.unique(latest[positions]):
            found = self.find(int(each))
            if found is not None:
                mine = positions[latest[positions] == each]
                _, at = found.find(groups[mine])
                yield found, mine, at
        positions = np.flatnonzero(latest >= part)
        known = {*self._runs, *self._new_runs} if len(positions) else set()
        for each in sorted(known, reverse=True):
            if not len(positions):
                return
            found = self.find(each)
            if each < part and found is not None:
                is_here, at = found.find(groups[positions])
                if is_here.any():
                    yield found, positions[is_here], at[is_here]
                positions = positions[~is_here]

    def put(
        self, part: int, groups: Ints | None, new: RunsPart, whole: tuple[Ints, Ints, Ints]
    ) -> tuple[RunsPart, list[tuple[int, Ints]]]:
        """Keep the runs of groups (None is all) after a part; which later parts that concerns."""
        old = self.find(part)
        if groups is not None and old is not None:
            new = _merged(new, old, groups, *whole)
        self._new_runs[part] = new
        changed = _changed_groups(old, new, groups)
        self._note_latest(part, changed, new)
        return new, self._later(part, changed)

    def _note_latest(self, part: int, changed: Ints, new: RunsPart) -> None:
        is_here, _ = new.find(changed)
        came = changed[is_here]
        came = came[self._latest[came] < part]
        gone = changed[~is_here]
        gone = gone[self._latest[gone] == part]
        self._undo.append(
            (np.concatenate([came, gone]), self._latest[np.concatenate([came, gone])])
        )
        self._latest[came] = part
        self._latest[gone] = NEVER
        for each in sorted({*self._runs, *self._new_runs}) if len(gone) else ():
            found = self.find(each) if each < part else None
            if found is not None:
                was, _ = found.find(gone)
                self._latest[gone[was]] = each

    def _later(self, part: int, changed: Ints) -> list[tuple[int, Ints]]:
        """For each group the next part that has a row of it."""
        left = changed[self._latest[changed] > part]
        found: list[tuple[int, Ints]] = []
        for each in sorted({*self._runs, *self._new_runs}) if len(left) else ():
            if not len(left):
                break
            runs = self.find(each) if each > part else None
            if runs is not None:
                is_here, _ = runs.find(left)
                if is_here.any():
                    found.append((each, left[is_here]))
                left = left[~is_here]
        return found

    # Parts that cannot change any more.

    def _settle(self, limit: int) -> None:
        """The parts before this one cannot change any more."""
        for part in sorted(each for each in self._runs if self.settled_to <= each < limit):
            self._settled[self._runs[part].groups] = part
        self.settled_to = max(self.settled_to, limit)

    def forget(self, limit: int) -> None:
        """Of parts that cannot change any more, keep the runs that groups bring to later ones."""
        self._settle(limit)
        self._forgotten += 1
        if self._forgotten % 64 == 0:
            self._thin.clear()  # groups have moved on since
        for part in [each for each in self._runs if each < limit and each not in self._thin]:
            thin = self._thinned(part)
            if thin is None:
                del self._runs[part]
            else:
                self._runs[part] = thin
            self._thin.add(part)

    def _thinned(self, part: int) -> RunsPart | None:
        """The runs that groups bring from a part to those that may still change."""
        runs = self._runs[part]
        needed = np.flatnonzero(self._settled[runs.groups] == part)
        return runs.thinned(needed) if len(needed) else None

    def carried(self, limit: int) -> Iterator[Carried]:
        """The runs that groups bring to the parts from this one on."""
        self._settle(limit)
        for part in sorted(each for each in self._runs if each < limit):
            thin = self._thinned(part)
            if thin is not None:
                yield Carried(part, self._groups.keys(thin.groups), thin.runs, thin.last)

    def carry(self, limit: int, carried: Iterable[tuple[int, RunsPart]]) -> None:
        """Begin with such runs."""
        self.make_room()
        for part, whole in carried:
            self._runs[part] = whole.thinned(np.argsort(whole.groups))
            self._latest[whole.groups] = self._settled[whole.groups] = part
        self.settled_to = limit


def _changed_groups(old: RunsPart | None, new: RunsPart, groups: Ints | None) -> Ints:
    """The groups that go on from here in another way than before."""
    if old is None:
        return new.groups
    looked_at = np.union1d(old.groups, new.groups) if groups is None else groups
    if len(looked_at) > _COMPARED:
        return looked_at
    was, there = old.find(looked_at)
    is_, here = new.find(looked_at)
    changed = was != is_
    for i in np.flatnonzero(was & is_):
        same = new.runs.same(here[i], old.runs, there[i])
        lasts = zip(new.last, old.last, strict=True)
        changed[i] = not same or any(
            a[0][here[i]] != b[0][there[i]] or a[1][here[i]] != b[1][there[i]] for a, b in lasts
        )
    found: Ints = looked_at[changed]
    return found


def _merged(
    new: RunsPart, old: RunsPart, groups: Ints, order: Ints, starts: Ints, present: Ints
) -> RunsPart:
    """What was there, with these groups as they are now."""
    kept = np.flatnonzero(~np.isin(old.groups, groups))
    numbers = np.concatenate([old.groups[kept], new.groups])
    by = np.argsort(numbers, kind="stable")
    runs = join_runs([old.runs.take(kept), new.runs]).take(by)
    last = tuple(
        (np.concatenate([a[0][kept], b[0]])[by], np.concatenate([a[1][kept], b[1]])[by])
        for a, b in zip(old.last, new.last, strict=True)
    )
    return RunsPart(numbers[by], runs, last, new.source, order, starts)

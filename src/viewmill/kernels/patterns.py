"""Maintain a pattern view: one run per phase and group, taken through the rows part by part.

takes  `Program` with a `PatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`; part j shows the groups that have a row in j and whose run is a match at the
       last of them

The engine computes for all rows of a part at once which steps each allows; a compiled loop takes
the runs through them. A late or deleted row concerns one group: its runs are taken through its
later rows again, until they are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.expressions import Column as ColumnOf
from viewmill.algebra.relations import Project, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested, is_float_word
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels.pattern_runs import (
    NEVER,
    Carried,
    Column,
    Groups,
    Ints,
    Runs,
    RunsPart,
    StreamOrder,
    chosen_rows,
    join_runs,
)
from viewmill.kernels.pattern_sweep import PatternSweep, Run, column_at
from viewmill.program.kept_parts import KeptParts, is_change
from viewmill.program.patterns import MATCHES, PatternQueries
from viewmill.program.program import Program

_COMPARED = 10_000  # so many groups are compared one by one; of more, all count as changed


class PatternMaintainer(KeptParts):
    """The runs and the matches of one pattern view."""

    def __init__(
        self,
        program: Program,
        source: Any,
        run: Run,
        dictionary: Dictionary,
        version: Callable[[], int],
        shared: dict[Any, Any] | None = None,
        is_deferred: Callable[[], bool] = lambda: False,
    ) -> None:
        assert isinstance(program.body, PatternQueries)
        super().__init__(program.output, program.body.length, version)
        self._body, self._source = program.body, source
        self._schema = program.inputs[0].schema
        self._run, self._dictionary = run, dictionary
        keys = Schema(tuple(self._schema[i] for i in self._body.keys))
        self._order: StreamOrder = ({} if shared is None else shared).setdefault(
            self._body.keys, StreamOrder(keys)
        )
        self._groups: Groups = self._order.groups
        self.is_deferred = is_deferred
        self._followers: list[PatternMaintainer] = []  # that this one takes along in this batch
        self._is_taken = False  # another one has taken this one along
        if self.has_parts:
            self._order.patterns.add(self)
        self._latest = np.full(0, NEVER, np.int64)  # by group, the newest part with a row of it
        # By group, the newest part with a row of it among those that cannot change any more.
        self._settled = np.full(0, NEVER, np.int64)
        self._settled_to = NEVER
        self._runs: dict[int, RunsPart] = {}
        self._new_runs: dict[int, RunsPart] = {}
        self._undo: list[tuple[Ints, Ints]] = []
        measures = self._body.measures
        self._is_float = np.array([is_float_word(m.field.type) for m in measures], np.bool_)
        self._width = len(measures)
        self._last_phase = len(self._body.phases)
        self._applied: dict[int, list[Delta]] = {}
        self._commits = 0
        self._thin: set[int] = set()
        self.advanced_rows = 0  # rows taken through automata since creation

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Note the rows that come and go; what retention ended is no news."""
        if self._is_taken:
            return
        rows = rows_of(delta)
        oldest, coming = self._source.oldest_shown(), self._source.changed_parts()
        for part, change in self._source.split(rows):
            if oldest is None or part >= oldest or part in coming:
                self._applied.setdefault(part, []).append(change)

    def flush(self) -> Delta:
        """Take the runs through what changed; the newest part now minus the newest before.

        The first of the patterns over a stream takes the others along: rows are gone through once.
        """
        if not self._is_taken:
            followers = [each for each in self._order.patterns if self._leads(each)]
            self._followers = sorted(followers, key=lambda each: each.body.view)
            for each in self._followers:
                each.follow(self._applied)
            advance_all([self, *self._followers])
        self._is_taken = False
        return self.difference()

    def _leads(self, other: PatternMaintainer) -> bool:
        """Whether another pattern will be given the same rows: those that are just coming."""
        parts = set(self._applied)
        is_coming = bool(parts) and parts.issubset(self._source.changed_parts())
        is_waiting = other is not self and not other.is_busy and not other.is_deferred()
        return is_coming and is_waiting and not self.is_deferred()

    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way here."""
        return bool(self._applied or self._new_runs or self._is_taken)

    def follow(self, applied: Mapping[int, list[Delta]]) -> None:
        """Another pattern takes this one through these rows."""
        self._applied, self._is_taken = dict(applied), True

    def take_due(self) -> dict[int, Ints | None]:
        """The groups to go through in each part that changed; None means all."""
        due = {part: self._touched_groups(part) for part in sorted(self._applied)}
        self._applied = {}
        self._reach_out(due)
        return due

    def fill(self) -> None:
        """Start at the oldest kept part, so that the view is what its definition says."""
        first, newest = self._source.first_part(), self._source.newest_part()
        if first is None or newest is None:
            return
        self.first = first if self.first is None else min(first, self.first)
        self.next = newest + 1
        first = max(first, self._settled_to)
        for part in self._source.parts_within(first, newest):
            advance_part([self], part, None)

    def _reach_out(self, due: Iterable[int]) -> None:
        newest = self._source.newest_part()
        if newest is None:
            return
        oldest = min(due, default=newest)
        self.first = oldest if self.first is None else min(self.first, oldest)
        self.next = newest + 1

    def commit(self) -> None:
        """Keep the new runs and parts."""
        super().commit()
        self._runs |= self._new_runs
        for part in [each for each in self._new_runs if not len(self._new_runs[each].groups)]:
            del self._runs[part]
        self._new_runs, self._undo, self._followers = {}, [], []

    def rollback(self) -> None:
        """Forget the new runs and parts."""
        super().rollback()
        followers, self._followers = self._followers, []
        for each in followers:
            each.rollback()
        self._applied, self._is_taken = {}, False
        for groups, latest in reversed(self._undo):
            self._latest[groups] = latest
        self._new_runs, self._undo = {}, []

    def state_bytes(self) -> Mapping[str, int]:
        """The matches, and the runs."""
        runs = sum(each.nbytes for each in self._runs.values())
        return {**super().state_bytes(), "runs": runs}

    def oldest_shown(self) -> int | None:
        """As far back as the source goes."""
        oldest: int | None = self._source.oldest_shown()
        return oldest

    def forget(self) -> None:
        """Drop matches and runs of parts that can no longer change."""
        super().forget()
        limit = self._source.horizon()
        if limit is None:
            return
        self._settle(limit)
        self._commits += 1
        if self._commits % 64 == 0:
            self._thin.clear()  # groups have moved on since
        for part in [each for each in self._runs if each < limit and each not in self._thin]:
            self._thin_out(part)
            self._thin.add(part)

    def _settle(self, limit: int) -> None:
        """The parts before this one cannot change any more."""
        for part in sorted(each for each in self._runs if self._settled_to <= each < limit):
            self._settled[self._runs[part].groups] = part
        self._settled_to = max(self._settled_to, limit)

    def _thin_out(self, part: int) -> None:
        """Of a part that cannot change any more, keep the runs that groups bring to later ones."""
        old = self._runs[part]
        needed = np.flatnonzero(self._settled[old.groups] == part)
        if len(needed):
            self._runs[part] = old.thinned(needed)
        else:
            del self._runs[part]

    # From one life to the next.

    def carried(self) -> tuple[int | None, list[Carried]]:
        """The first part that may change, None if all may, and the runs that groups bring there."""
        limit = self._source.horizon()
        if limit is None:
            return None, []
        self._settle(limit)
        found = []
        for part in sorted(each for each in self._runs if each < limit):
            runs = self._runs[part]
            needed = np.flatnonzero(self._settled[runs.groups] == part)
            if len(needed):
                thin = runs.thinned(needed)
                found.append(Carried(part, self._groups.keys(thin.groups), thin.runs, thin.last))
        return limit, found

    def carry(self, limit: int, carried: Iterable[Carried]) -> None:
        """Begin with such runs; `fill` goes on from there."""
        empty, none = Delta.empty(self._schema), np.empty(0, np.int64)
        for each in carried:
            numbers = self._numbers_of(each.keys)
            starts = np.zeros(len(numbers) + 1, np.int64)
            whole = RunsPart(numbers, each.runs, each.last, empty, none, starts)
            self._runs[each.part] = whole.thinned(np.argsort(numbers))
            self._latest[numbers] = self._settled[numbers] = each.part
        self._settled_to = limit

    # One part.

    def _touched_groups(self, part: int) -> Ints | None:
        """The groups whose rows changed; None for a new part."""
        if part not in self._runs:
            return None
        return np.unique(np.concatenate([self._numbers(each) for each in self._applied[part]]))

    def _numbers(self, rows: Delta) -> Ints:
        keys = self._body.keys
        columns = tuple(rows.columns[i] for i in keys)
        nulls = tuple(rows.nulls[i] for i in keys)
        return self._numbers_of(Delta(self._groups.schema, columns, nulls, None, rows.size))

    def _numbers_of(self, keys: Delta) -> Ints:
        numbers = self._groups.numbers(keys)
        self._make_room()
        return numbers

    def _word_type(self, i: int) -> Any:
        return np.float64 if is_float_word(self._schema[i].type) else np.int64

    def _make_room(self) -> None:
        known = len(self._latest)
        if len(self._groups) > known:
            more = np.full(max(2 * known, len(self._groups)) - known, NEVER, np.int64)
            self._latest = np.concatenate([self._latest, more])
            self._settled = np.concatenate([self._settled, more])

    def runs_part(self, part: int) -> RunsPart | None:
        found = self._new_runs.get(part)
        return self._runs.get(part) if found is None else found

    def ordered(self, part: int, old: RunsPart | None) -> tuple[Ints, Ints, Ints]:
        """The rows of a part by group and time, where each group starts, and the groups."""
        rows = self._source.part(part)
        if old is not None and old.source is rows:
            return old.order, old.starts, old.groups
        found = self._order.find(part, rows)
        if found is None:
            found = self._sorted(rows)
            self._order.note(part, rows, found)
        self._make_room()
        return found

    def _sorted(self, rows: Delta) -> tuple[Ints, Ints, Ints]:
        positions = _positions(rows)
        numbers = self._numbers(rows)[positions]
        moments = rows.columns[self._body.time][positions]
        if (numbers[1:] > numbers[:-1]).all():
            order = positions
        else:
            by = np.lexsort((moments, numbers))
            numbers, moments = numbers[by], moments[by]
            order = positions[by]
            if ((numbers[1:] == numbers[:-1]) & (moments[1:] == moments[:-1])).any():
                order = self._break_ties(rows, order, numbers)
        borders = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        starts = np.concatenate([[0], borders, [len(numbers)]]).astype(np.int64)
        if not len(numbers):
            starts = np.zeros(1, np.int64)
        return order, starts, numbers[starts[:-1]]

    def _break_ties(self, rows: Delta, order: Ints, numbers: Ints) -> Ints:
        """Rows of one group and moment come in the order of their other values."""
        time = self._schema[self._body.time].name
        names = [f.name for f in rows.schema if not isinstance(f.type, Nested) and f.name != time]
        whole = decode_delta(rows.take(order), self._dictionary)
        columns = {" group": pa.array(numbers), time: whole.column(time)}
        for name in names:
            columns[f"{name} is there"] = whole.column(name).is_valid()  # NULL comes first
            columns[name] = whole.column(name)
        keys = [(name, "ascending") for name in columns]
        by = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy()
        found: Ints = order[by.astype(np.int64)]
        return found

    def before(self, part: int, groups: Ints) -> tuple[Runs, tuple[Column, ...]]:
        """The runs of groups before a part, and the values of their last rows."""
        self._make_room()
        runs = Runs.empty(len(groups), self._width)
        last = [
            (np.zeros(len(groups), self._word_type(i)), np.ones(len(groups), np.uint8))
            for i in self._body.read_before
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
            found = self.runs_part(int(each))
            if found is not None:
                mine = positions[latest[positions] == each]
                _, at = found.find(groups[mine])
                yield found, mine, at
        positions = np.flatnonzero(latest >= part)
        known = {*self._runs, *self._new_runs} if len(positions) else set()
        for each in sorted(known, reverse=True):
            if not len(positions):
                return
            found = self.runs_part(each)
            if each < part and found is not None:
                is_here, at = found.find(groups[positions])
                if is_here.any():
                    yield found, positions[is_here], at[is_here]
                positions = positions[~is_here]

    # Going through a part.

    @property
    def body(self) -> PatternQueries:
        """What is computed."""
        return self._body

    @property
    def source(self) -> Any:
        """What has the rows."""
        return self._source

    def pattern_sweep(self, others: tuple[PatternMaintainer, ...]) -> PatternSweep:
        """The automata of this and other patterns side by side."""
        bodies = (self._body, *(each.body for each in others))
        key = tuple(map(id, bodies))
        found = self._order.sweeps.get(key)
        if found is None:
            found = self._order.sweeps[key] = PatternSweep(bodies, self._schema)
        return found

    @property
    def run(self) -> Run:
        """How the engine is asked."""
        return self._run

    @property
    def dictionary(self) -> Dictionary:
        """Of the strings."""
        return self._dictionary

    def take(
        self, part: int, groups: Ints | None, new: RunsPart, whole: tuple[Ints, Ints, Ints]
    ) -> list[tuple[int, Ints]]:
        """Keep the runs of groups (None is all) after a part; which later parts that concerns."""
        old = self.runs_part(part)
        self.advanced_rows += len(new.order)
        if groups is not None and old is not None:
            new = _merged(new, old, groups, *whole)
        self._new_runs[part] = new
        matches = self._matches(new)
        if is_change(self.part(part), matches) or part not in self._catalog:
            self.keep(part, matches)
        changed = self._changed_groups(old, new, groups)
        self._note_latest(part, changed, new)
        return self._later(part, changed)

    # What is shown, and what must be looked at again.

    def _matches(self, part: RunsPart) -> Delta:
        """The rows of the view for a part."""
        runs = part.runs
        at = np.flatnonzero(runs.phase == self._last_phase)
        if not len(at):
            return self._empty
        group = np.searchsorted(runs.starts, at, side="right") - 1
        values = (runs.integers[at], runs.floats[at], runs.counts[at])
        return self._measured(part.groups[group], runs.rows[at], *values)

    def _measured(self, groups: Ints, rows: Ints, integers: Any, floats: Any, counts: Any) -> Delta:
        """The rows of the view for matches, by their measures."""
        keys = self._groups.keys(groups)
        columns, nulls = [*keys.columns, rows], [*keys.nulls, None]
        for m, measure in enumerate(self._body.measures):
            if measure.function == "count":
                columns.append(np.ascontiguousarray(counts[:, m]))
                nulls.append(None)
                continue
            words = np.ascontiguousarray((floats if self._is_float[m] else integers)[:, m])
            mask = (counts[:, m] <= 0).astype(np.uint8)
            columns.append(np.where(mask, words.dtype.type(0), words))
            nulls.append(mask if mask.any() else None)
        return self._shown(Delta(self._body.shown, tuple(columns), tuple(nulls), None, len(rows)))

    def _shown(self, found: Delta) -> Delta:
        show = self._body.show
        if isinstance(show, Project) and isinstance(show.input, Scan):
            prefix = f"{show.input.alias}."
            names = [
                each.name.removeprefix(prefix) if isinstance(each, ColumnOf) else None
                for _, each in show.outputs
            ]
            if None not in names:  # columns as they are: nothing to compute
                at = [found.schema.names.index(str(name)) for name in names]
                return Delta(self.schema, tuple(found.columns[i] for i in at),
                             tuple(found.nulls[i] for i in at), None, found.size)  # fmt: skip
        table = decode_delta(found, self._dictionary)
        return encode_columns(self.schema, self._run(show, {MATCHES: table}), self._dictionary)

    def _changed_groups(self, old: RunsPart | None, new: RunsPart, groups: Ints | None) -> Ints:
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
            found = self.runs_part(each) if each < part else None
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
            runs = self.runs_part(each) if each > part else None
            if runs is not None:
                is_here, _ = runs.find(left)
                if is_here.any():
                    found.append((each, left[is_here]))
                left = left[~is_here]
        return found


def advance_all(members: Sequence[PatternMaintainer]) -> None:
    """Take patterns over one stream and GROUP BY through what changed, together where they can."""
    due = {member: member.take_due() for member in members}
    while any(due.values()):
        part = min(part for parts in due.values() for part in parts)
        waiting = [(member, due[member].pop(part)) for member in members if part in due[member]]
        while waiting:
            groups = waiting[0][1]
            together = [member for member, other in waiting if _are_same(groups, other)]
            waiting = [each for each in waiting if each[0] not in together]
            found = advance_part(together, part, groups)
            for member, later in zip(together, found, strict=True):
                for subscript, more in later:
                    known = due[member].get(subscript, np.empty(0, np.int64))
                    union = None if known is None else np.union1d(known, more)
                    due[member][subscript] = union


def _are_same(groups: Ints | None, others: Ints | None) -> bool:
    return groups is others or (
        groups is not None and others is not None and np.array_equal(groups, others)
    )


def advance_part(
    members: Sequence[PatternMaintainer], part: int, groups: Ints | None
) -> list[list[tuple[int, Ints]]]:
    """Take the runs of groups (None is all) through a part; which later parts that concerns."""
    lead, *others = members
    rows = lead.source.part(part)
    whole = lead.ordered(part, lead.runs_part(part))
    order, starts, present = whole
    if groups is not None:
        at = np.flatnonzero(np.isin(present, groups))
        order, starts, present = chosen_rows(*whole, at)
    before = [each.before(part, present) for each in members]
    sweep = lead.pattern_sweep(tuple(others))
    lasts = [last for _, last in before]
    steps = sweep.steps(rows, order, starts, lasts, lead.run, lead.dictionary)
    after = sweep.advance(starts, steps, [runs for runs, _ in before])
    ends = order[starts[1:] - 1] if len(present) else order
    found = []
    for member, runs in zip(members, after, strict=True):
        last = tuple(column_at(rows, i, ends) for i in member.body.read_before)
        new = RunsPart(present, runs, last, rows, order, starts)
        found.append(member.take(part, groups, new, whole))
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


def _positions(rows: Delta) -> Ints:
    """The rows, each as often as it is there."""
    if rows.multiplicity is None:
        return np.arange(rows.size, dtype=np.int64)
    return np.repeat(np.arange(rows.size, dtype=np.int64), np.maximum(rows.multiplicity, 0))

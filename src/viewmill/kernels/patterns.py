"""Maintain a pattern view: one run per phase and group, taken through the rows part by part.

takes  `Program` with a `PatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`; part j shows the groups that have a row in j and whose run is a match at the
       last of them

What steps each row of a part allows is computed for all of them at once; a compiled loop takes the
runs through them. A late or deleted row concerns one group: its runs are taken through its
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
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.kernels.float_bins import rounded_sums
from viewmill.kernels.pattern_kept_runs import KeptRuns
from viewmill.kernels.pattern_kernels import PARTS
from viewmill.kernels.pattern_runs import (
    NEVER,
    Carried,
    Groups,
    Ints,
    RunsPart,
    StreamOrder,
    chosen_rows,
)
from viewmill.kernels.pattern_sweep import PatternSweep, check_narrow, column_at
from viewmill.kernels.row_function import Run, row_function
from viewmill.program.kept_parts import KeptParts, is_change
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Maintainer, Program


class PatternMaintainer(KeptParts, Maintainer):
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
        self._dictionary = dictionary
        body = self._body
        self.compute_steps = row_function(body.step_programs, body.steps, dictionary, run)
        self._compute_shown = row_function(body.show_programs, body.show, dictionary, run)
        keys = Schema(tuple(self._schema[i] for i in self._body.keys))
        self._ties = body.ties
        self._order: StreamOrder = ({} if shared is None else shared).setdefault(
            (self._body.keys, self._ties), StreamOrder(keys)
        )
        self._groups: Groups = self._order.groups
        self.is_deferred = is_deferred
        self._followers: list[PatternMaintainer] = []  # that this one takes along in this batch
        self._is_taken = False  # another one has taken this one along
        if self.has_parts:
            self._order.patterns.add(self)
        self._limit = NEVER  # the first part that may change, as of the last commit here
        self._start = NEVER  # the first part that it saw
        source.holders.add(self)
        measures = self._body.measures
        self._is_float = np.array([is_float_word(m.field.type) for m in measures], np.bool_)
        self._width = len(measures)
        self._last_phase = len(self._body.phases)
        words = [self._word_type(i) for i in self._body.read_before]
        self._runs = KeptRuns(self._groups, self._width, words)
        self._applied: dict[int, list[Delta]] = {}
        self.advanced_rows = 0  # rows taken through automata since creation

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Stage inserted and deleted rows; rows that retention dropped are ignored."""
        if self._is_taken:
            return
        for part, change in self._source.split(self._staged(delta)):
            if self._is_news(part):
                self._applied.setdefault(part, []).append(change)

    def _staged(self, delta: Delta | Product) -> Delta:
        """The rows of a change; a source that only this pattern reads takes them."""
        rows = rows_of(delta)
        if self._body.own_parts:
            self._source.stage(rows)
        return rows

    def _is_news(self, part: int) -> bool:
        """Whether a change of a part is more than its end.

        The source keeps for a deferred view what it has not seen; what it has seen can only end.
        """
        oldest = self._source.oldest_shown()
        is_kept = oldest is None or part >= oldest
        is_unseen = self.is_deferred() and part >= self.needs_from
        return is_kept or is_unseen or part in self._source.changed_parts()

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
        return bool(self._applied or self._runs.is_busy or self._is_taken)

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
        first = max(first, self._runs.settled_to, self._start)
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
        if self._body.own_parts:
            self._source.commit(self._version())
        super().commit()
        self._runs.commit()
        self._followers = []
        limit = self._source.horizon()
        self._limit = self._limit if limit is None else max(limit, self._limit)

    def rollback(self) -> None:
        """Forget the new runs and parts."""
        if self._body.own_parts:
            self._source.rollback()
        super().rollback()
        followers, self._followers = self._followers, []
        for each in followers:
            each.rollback()
        self._applied, self._is_taken = {}, False
        self._runs.rollback()

    def state_bytes(self) -> Mapping[str, int]:
        """The matches, and the runs."""
        return {**super().state_bytes(), "runs": self._runs.nbytes, **self._own_rows()}

    def _own_rows(self) -> dict[str, int]:
        """What the rows take that only this pattern keeps."""
        return {"rows": self._source.nbytes} if self._body.own_parts else {}

    def oldest_shown(self) -> int | None:
        """The oldest part of the source."""
        oldest: int | None = self._source.oldest_shown()
        return oldest

    def forget(self) -> None:
        """Drop matches and runs of parts that can no longer change."""
        super().forget()
        if self._limit != NEVER:
            self._runs.forget(self._limit)

    @property
    def needs_from(self) -> int:
        """The first part whose rows the source must keep."""
        return self._limit

    def start_at(self, part: int | None) -> None:
        """Begin with the rows of this part; None: with all there are."""
        self._start = NEVER if part is None else part

    # From one life to the next.

    def carried(self) -> tuple[int | None, list[Carried]]:
        """The first part that may change, None if all may, and the runs that groups bring there."""
        if self._limit == NEVER:
            return None, []
        return self._limit, list(self._runs.carried(self._limit))

    def carry(self, limit: int, carried: Iterable[Carried]) -> None:
        """Begin with such runs; `fill` goes on from there."""
        empty, none = Delta.empty(self._schema), np.empty(0, np.int64)
        found = []
        for each in carried:
            numbers = self._numbers_of(each.keys)
            starts = np.zeros(len(numbers) + 1, np.int64)
            found.append((each.part, RunsPart(numbers, each.runs, each.last, empty, none, starts)))
        self._runs.carry(limit, found)
        self._limit = limit

    def take_over(self, old: Any, translate: Callable[[Delta], Delta]) -> None:
        """Continue with the parts of a maintainer before, with other ids of strings."""
        super().take_over(old, translate)
        self._limit, self.advanced_rows = old._limit, old.advanced_rows

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
        self._runs.make_room()
        return numbers

    def _word_type(self, i: int) -> Any:
        return np.float64 if is_float_word(self._schema[i].type) else np.int64

    def ordered(self, part: int) -> tuple[Ints, Ints, Ints]:
        """The rows of a part by group and time, where each group starts, and the groups."""
        rows, old = self._source.part(part), self._runs.find(part)
        if old is not None and old.source is rows:
            return old.order, old.starts, old.groups
        found = self._order.find(part, rows)
        if found is None:
            found = self._sorted(rows)
            self._order.note(part, rows, found)
        self._runs.make_room()
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
        ties = {self._schema[i].name: descending for i, descending in self._ties}
        for name in [*ties, *(each for each in names if each not in ties)]:
            columns[f"{name} is there"] = whole.column(name).is_valid()  # NULL comes first
            columns[name] = whole.column(name)
        back = {f"{name}{more}" for name in ties if ties[name] for more in ("", " is there")}
        keys = [(name, "descending" if name in back else "ascending") for name in columns]
        by = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy()
        found: Ints = order[by.astype(np.int64)]
        return found

    # Going through a part.

    @property
    def body(self) -> PatternQueries:
        """What is computed."""
        return self._body

    @property
    def source(self) -> Any:
        """What has the rows."""
        return self._source

    @property
    def runs(self) -> KeptRuns:
        """The kept runs by part."""
        return self._runs

    def pattern_sweep(self, others: tuple[PatternMaintainer, ...]) -> PatternSweep:
        """The automata of this and other patterns side by side."""
        bodies = (self._body, *(each.body for each in others))
        key = tuple(map(id, bodies))
        found = self._order.sweeps.get(key)
        if found is None:
            found = self._order.sweeps[key] = PatternSweep(bodies, self._schema)
        return found

    def take(
        self, part: int, groups: Ints | None, new: RunsPart, whole: tuple[Ints, Ints, Ints]
    ) -> list[tuple[int, Ints]]:
        """Keep the runs of groups (None is all) after a part; which later parts that concerns."""
        self.advanced_rows += len(new.order)
        kept, later = self._runs.put(part, groups, new, whole)
        matches = self._matches(kept)
        if is_change(self.part(part), matches) or part not in self._catalog:
            self.keep(part, matches)
        return later

    # What is shown.

    def _matches(self, part: RunsPart) -> Delta:
        """The rows of the view for a part."""
        runs = part.runs
        at = np.flatnonzero(runs.phase == self._last_phase)
        if not len(at):
            return self._empty
        group = np.searchsorted(runs.starts, at, side="right") - 1
        parts = [runs.floats[at, :, i] for i in range(PARTS)]
        values = (runs.integers[at], rounded_sums(parts), runs.counts[at])
        return self._measured(part.groups[group], runs.rows[at], *values)

    def rows_of_groups(self, part: int, keys: Delta) -> Delta:
        """The rows of the view for some groups of a part."""
        found = self._runs.find(part)
        if found is None:
            return self._empty
        is_here, at = found.find(self._numbers_of(keys))
        return self._matches(found.thinned(at[is_here]))

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
            if measure.function == "sum":
                check_narrow(words, mask, self._body.shown[len(columns)].type, self._body.view)
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
        shown = self._compute_shown(found)
        return Delta(self.schema, shown.columns, shown.nulls, shown.multiplicity, shown.size)


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
    whole = lead.ordered(part)
    order, starts, present = whole
    if groups is not None:
        at = np.flatnonzero(np.isin(present, groups))
        order, starts, present = chosen_rows(*whole, at)
    before = [each.runs.before(part, present) for each in members]
    sweep = lead.pattern_sweep(tuple(others))
    lasts = [last for _, last in before]
    functions = [each.compute_steps for each in members]
    steps = sweep.steps(rows, order, starts, lasts, functions)
    after = sweep.advance(starts, steps, [runs for runs, _ in before])
    ends = order[starts[1:] - 1] if len(present) else order
    found = []
    for member, runs in zip(members, after, strict=True):
        last = tuple(column_at(rows, i, ends) for i in member.body.read_before)
        new = RunsPart(present, runs, last, rows, order, starts)
        found.append(member.take(part, groups, new, whole))
    return found


def _positions(rows: Delta) -> Ints:
    """Row positions, repeated by multiplicity."""
    if rows.multiplicity is None:
        return np.arange(rows.size, dtype=np.int64)
    return np.repeat(np.arange(rows.size, dtype=np.int64), np.maximum(rows.multiplicity, 0))

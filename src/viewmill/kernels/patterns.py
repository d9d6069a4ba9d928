"""Maintain a pattern view: one run per phase and group, taken through the rows part by part.

takes  `Program` with a `PatternQueries` body, the source of the rows, a way to run a relation
gives  `Maintainer`; part j shows the groups that have a row in j and whose run is a match at the
       last of them

The engine computes for all rows of a part at once which steps each allows; a compiled loop takes
the runs through them. A late or deleted row concerns one group: its runs are taken through its
later rows again, until they are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.expressions import Column as ColumnOf
from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested, is_float_word
from viewmill.deltas.arrow import decode_column, decode_delta, encode_array, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Product, rows_of
from viewmill.errors import Overflow
from viewmill.kernels.pattern_kernels import (
    COUNT,
    FIRST,
    LAST,
    MAX,
    MIN,
    OVERFLOW,
    SUM,
    advance,
    compiled,
)
from viewmill.kernels.pattern_runs import (
    NEVER,
    Column,
    Groups,
    Ints,
    Runs,
    RunsPart,
    Steps,
    StreamOrder,
    join_runs,
)
from viewmill.program.kept_parts import KeptParts, is_change
from viewmill.program.patterns import (
    MATCHES,
    PREVIOUS,
    ROWS,
    MergedSteps,
    PatternQueries,
    merge_steps,
)
from viewmill.program.program import Program

Run = Callable[[Relation, Mapping[str, Any]], Any]  # a relation over Arrow tables in, Arrow out
_FUNCTIONS = {"sum": SUM, "min": MIN, "max": MAX, "first": FIRST, "last": LAST, "count": COUNT}
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
        self._is_deferred = is_deferred
        self._is_first = False  # the rows under way are the first ones of the batch
        if self.has_parts:
            self._order.patterns.add(self)
        self._latest = np.full(0, NEVER, np.int64)  # by group, the newest part with a row of it
        self._runs: dict[int, RunsPart] = {}
        self._new_runs: dict[int, RunsPart] = {}
        self._undo: list[tuple[Ints, Ints]] = []
        measures = self._body.measures
        self._is_float = np.array([is_float_word(m.field.type) for m in measures], np.bool_)
        self._functions = np.array([_FUNCTIONS[m.function] for m in measures], np.int64)
        self._phases = np.array([m.phase for m in measures], np.int64)
        phases = self._body.phases
        self._enter = np.array([each.enter.bit for each in phases], np.int64)
        self._stay = np.array([-1 if p.stay is None else p.stay.bit for p in phases], np.int64)
        self._applied: dict[int, list[Delta]] = {}
        self._commits = 0
        self._thin: set[int] = set()
        self.advanced_rows = 0  # rows taken through automata since creation

    # The maintainer.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Note the rows that come and go; what retention ended is no news."""
        rows = rows_of(delta)
        oldest = self._source.oldest_shown()
        for part, change in self._source.split(rows):
            if oldest is None or part >= oldest:
                self._applied.setdefault(part, []).append(change)

    def flush(self) -> Delta:
        """Take the runs through what changed; the newest part now minus the newest before."""
        due: dict[int, Ints | None] = {}
        for part in sorted(self._applied):
            due[part] = self._touched_groups(part)
        self._applied = {}
        self._reach_out(due)
        self._is_first = True
        while due:
            part = min(due)
            groups = due.pop(part)
            for later, more in self._advance(part, groups):
                known = due.get(later, np.empty(0, np.int64))
                due[later] = None if known is None else np.union1d(known, more)
        return self.difference()

    def fill(self) -> None:
        """Start at the oldest kept part, so that the view is what its definition says."""
        first, newest = self._source.first_part(), self._source.newest_part()
        if first is None or newest is None:
            return
        self.first, self.next = first, newest + 1
        for part in self._source.parts_within(first, newest):
            self._advance(part, None)

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
        self._new_runs, self._undo = {}, []

    def rollback(self) -> None:
        """Forget the new runs and parts."""
        super().rollback()
        self._applied = {}
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
        self._commits += 1
        if self._commits % 64 == 0:
            self._thin.clear()  # groups have moved on since
        for part in [each for each in self._runs if each < limit and each not in self._thin]:
            self._thin_out(part)
            self._thin.add(part)

    def _thin_out(self, part: int) -> None:
        """Of a part that cannot change any more, keep the runs that a group still carries."""
        old = self._runs[part]
        needed = np.flatnonzero(self._latest[old.groups] == part)
        if not len(needed):
            del self._runs[part]
            return
        last = tuple((words[needed], mask[needed]) for words, mask in old.last)
        none = np.empty(0, np.int64)
        starts = np.zeros(len(needed) + 1, np.int64)
        empty = Delta.empty(old.source.schema)
        self._runs[part] = RunsPart(
            old.groups[needed], old.runs.take(needed), last, empty, none, starts
        )

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
        numbers = self._groups.numbers(Delta(self._groups.schema, columns, nulls, None, rows.size))
        self._make_room()
        return numbers

    def _make_room(self) -> None:
        if len(self._groups) > len(self._latest):
            grown = np.full(max(2 * len(self._latest), len(self._groups)), NEVER, np.int64)
            grown[: len(self._latest)] = self._latest
            self._latest = grown

    def _advance(self, part: int, groups: Ints | None) -> list[tuple[int, Ints]]:
        """Take the runs of groups (None is all) through a part; which later parts that concerns."""
        old = self._runs_part(part)
        order, starts, present = self._ordered(part, old)
        rows = self._source.part(part)
        chosen = np.arange(len(present))
        if groups is not None:
            chosen = np.flatnonzero(np.isin(present, groups))
        new = self._after(part, rows, order, starts, present, chosen)
        if groups is not None and old is not None:
            new = _merged(new, old, groups, order, starts, present)
        self._new_runs[part] = new
        matches = self._matches(new)
        if is_change(self.part(part), matches) or part not in self._catalog:
            self.keep(part, matches)
        changed = self._changed_groups(old, new, groups)
        self._note_latest(part, changed, new)
        return self._later(part, changed)

    def _runs_part(self, part: int) -> RunsPart | None:
        found = self._new_runs.get(part)
        return self._runs.get(part) if found is None else found

    def _ordered(self, part: int, old: RunsPart | None) -> tuple[Ints, Ints, Ints]:
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
        table = decode_delta(rows.take(order), self._dictionary).select([*names, time])
        table = table.append_column(" group", pa.array(numbers))
        keys = [(" group", "ascending"), (time, "ascending"), *((n, "ascending") for n in names)]
        by = pc.sort_indices(table, sort_keys=keys).to_numpy()
        found: Ints = order[by.astype(np.int64)]
        return found

    def _after(
        self, part: int, rows: Delta, order: Ints, starts: Ints, present: Ints, chosen: Ints
    ) -> RunsPart:
        """The runs of the chosen groups after the part."""
        if len(chosen) < len(present):
            sizes = starts[chosen + 1] - starts[chosen]
            own = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            at = np.repeat(starts[chosen] - own[:-1], sizes) + np.arange(own[-1])
            taken, begin, groups = order[at], own, present[chosen]
        else:
            taken, begin, groups = order, starts, present
        before, last = self._before(part, groups)
        bits, arguments = self._shared_steps(part, rows, taken, begin, groups, last)
        self._is_first = False
        runs = self._run_automata(begin, bits, arguments, before)
        self.advanced_rows += len(taken)
        ends = taken[begin[1:] - 1] if len(groups) else taken
        last = tuple(_column(rows, i, ends) for i in self._body.read_before)
        return RunsPart(groups, runs, last, rows, taken, begin)

    def _before(self, part: int, groups: Ints) -> tuple[Runs, tuple[Column, ...]]:
        """The runs of groups before a part, and the values of their last rows."""
        runs = Runs.empty(len(groups), len(self._functions))
        last = [
            (np.zeros(len(groups), _dtype(self._schema, i)), np.ones(len(groups), np.uint8))
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
            pieces.append(Runs.empty(len(places[-1]), len(self._functions)))
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
            found = self._runs_part(int(each))
            if found is not None:
                mine = positions[latest[positions] == each]
                _, at = found.find(groups[mine])
                yield found, mine, at
        positions = np.flatnonzero(latest >= part)
        for each in sorted({*self._runs, *self._new_runs}, reverse=True):
            if not len(positions):
                return
            found = self._runs_part(each)
            if each < part and found is not None:
                is_here, at = found.find(groups[positions])
                if is_here.any():
                    yield found, positions[is_here], at[is_here]
                positions = positions[~is_here]

    # Steps and runs.

    def _shared_steps(
        self, part: int, rows: Delta, order: Ints, starts: Ints, groups: Ints, last: Any
    ) -> tuple[Ints, list[Column]]:
        """The steps of these rows; the query also finds those of the patterns that come next."""
        found = self._order.steps.pop(self, None)
        if found is not None and found.rows is rows and np.array_equal(found.order, order):
            return found.bits, found.arguments
        if self._is_first:
            others = [each for each in self._order.patterns if each.follows(self)]
            merged = merge_steps([self._body, *(each.body for each in others)])
            if others and merged is not None:
                tails = [last, *(each.last_before(part, groups) for each in others)]
                mine, *theirs = self._found_steps(merged, tails, rows, order, starts)
                for each, (bits, arguments) in zip(others, theirs, strict=True):
                    self._order.steps[each] = Steps(rows, order, bits, arguments)
                return mine
        return self._steps(rows, order, starts, last)

    def follows(self, other: PatternMaintainer) -> bool:
        """Whether this pattern will go through the same rows next, from its runs as they are."""
        is_new = self is not other and not self._new_runs and not self._applied
        return is_new and not self._is_deferred()

    @property
    def body(self) -> PatternQueries:
        """What is computed."""
        return self._body

    def last_before(self, part: int, groups: Ints) -> tuple[Column, ...]:
        """The values that groups' last rows before a part have."""
        self._make_room()
        return self._before(part, groups)[1]

    def _steps(
        self, rows: Delta, order: Ints, starts: Ints, last: tuple[Column, ...]
    ) -> tuple[Ints, list[Column]]:
        """The bits of each row, and the arguments of the measures, by the engine."""
        alone = merge_steps([self._body])
        assert alone is not None
        return self._found_steps(alone, [last], rows, order, starts)[0]

    def _found_steps(
        self, merged: MergedSteps, tails: list[Any], rows: Delta, order: Ints, starts: Ints
    ) -> list[tuple[Ints, list[Column]]]:
        arrays: dict[str, Any] = {}
        for body, last in zip(merged.bodies, tails, strict=True):
            for i in body.read:
                if self._schema[i].name not in arrays:
                    arrays[self._schema[i].name] = self._decoded(i, *_column(rows, i, order))
            for (first, first_mask), i in zip(last, body.read_before, strict=True):
                name = PREVIOUS + self._schema[i].name
                if name not in arrays:
                    words, mask = _column(rows, i, order)
                    words, mask = np.roll(words, 1), np.roll(mask, 1)
                    words[starts[:-1]], mask[starts[:-1]] = first, first_mask
                    arrays[name] = self._decoded(i, words, mask)
        arrays = arrays or {"nothing": pa.nulls(len(order), pa.int64())}
        result = self._run(merged.query, {ROWS: pa.table(arrays)})
        found, at = [], 0
        for body in merged.bodies:
            width = len(body.bits.schema)
            columns = range(at, at + width)
            found.append(self._encoded_steps(body, [result.column(i) for i in columns]))
            at += width
        return found

    def _encoded_steps(self, body: PatternQueries, columns: list[Any]) -> tuple[Ints, list[Column]]:
        schema = body.bits.schema
        bits, _ = encode_array(columns[0], replace(schema[0], nullable=True), self._dictionary)
        arguments = []
        for i in range(1, len(schema)):
            words, nulls = encode_array(columns[i], schema[i], self._dictionary)
            arguments.append((words, np.zeros(len(words), np.uint8) if nulls is None else nulls))
        return bits.astype(np.int64, copy=False), arguments

    def _decoded(self, i: int, words: Any, mask: Any) -> Any:
        shown = mask if mask.any() else None
        return decode_column(words, shown, self._schema[i], self._dictionary)

    def _run_automata(
        self, starts: Ints, bits: Ints, arguments: list[Column], before: Runs
    ) -> Runs:
        groups, measures = len(starts) - 1, len(self._functions)
        used = [arguments[m.argument] for m in self._body.measures]
        integers = np.zeros((measures, len(bits)), np.int64)
        floats = np.zeros((measures, len(bits)), np.float64)
        nulls = np.zeros((measures, len(bits)), np.uint8)
        for m, (words, mask) in enumerate(used):
            (floats if self._is_float[m] else integers)[m] = words
            nulls[m] = mask
        room = max(groups * len(self._enter), 1)  # touched only as far as runs are made
        made = Runs(
            np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
            np.empty((room, measures), np.int64), np.empty((room, measures), np.float64),
            np.empty((room, measures), np.int64),
        )  # fmt: skip
        spans = np.stack([before.starts[:-1], before.starts[1:]], axis=1)
        count = compiled(advance)(
            starts, bits, self._enter, self._stay, self._functions, self._phases, self._is_float,
            integers, floats, nulls, spans, *before.columns(), made.starts,
            *made.columns(),
        )  # fmt: skip
        if count == OVERFLOW:
            raise Overflow(f'a sum of view "{self._body.view}" does not fit BIGINT')
        sizes = np.bincount(made.starts[:count], minlength=groups)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Runs(ends, *(each[:count].copy() for each in made.columns()))

    # What is shown, and what must be looked at again.

    def _matches(self, part: RunsPart) -> Delta:
        """The rows of the view for a part."""
        runs = part.runs
        at = np.flatnonzero(runs.phase == len(self._enter))
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
        for each in sorted({*self._runs, *self._new_runs}):
            found = self._runs_part(each) if len(gone) and each < part else None
            if found is not None:
                was, _ = found.find(gone)
                self._latest[gone[was]] = each

    def _later(self, part: int, changed: Ints) -> list[tuple[int, Ints]]:
        """For each group the next part that has a row of it."""
        left = changed[self._latest[changed] > part]
        found: list[tuple[int, Ints]] = []
        for each in sorted({*self._runs, *self._new_runs}):
            if not len(left):
                break
            runs = self._runs_part(each) if each > part else None
            if runs is not None:
                is_here, _ = runs.find(left)
                if is_here.any():
                    found.append((each, left[is_here]))
                left = left[~is_here]
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


def _column(rows: Delta, i: int, at: Ints) -> Column:
    mask = rows.nulls[i]
    masks: npt.NDArray[np.uint8] = np.zeros(len(at), np.uint8) if mask is None else mask[at]
    return rows.columns[i][at], masks


def _dtype(schema: Schema, i: int) -> Any:
    return np.float64 if is_float_word(schema[i].type) else np.int64

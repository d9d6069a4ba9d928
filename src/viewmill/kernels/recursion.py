"""Keep a recursive CTE: the rows of each step, with the number of their derivations.

takes  Program with a Recursive body, and a way to build the maintainer of its step
gives  a Maintainer

Steps are gone through from the first one on. What a step makes of changed rows changes the next
step, until nothing changes. A row that is derived in several steps belongs to the first of them if
the CTE is a UNION: each derivation is from an earlier step, so that rows on a cycle never keep one
another alive, and a deleted edge takes away exactly what it alone led to.

    edges 1→2, 2→3, 1→3        row     derivations by step     its step
                               (1,3)   {0: 1, 1: 1}            0
    delete 1→3                 (1,3)   {1: 1}                  1
    delete 2→3                 (1,3)   {}                      none: it goes
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from viewmill.algebra.recursion import limit_text
from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Product
from viewmill.errors import EvaluationFailed, OutOfMemory, Overflow
from viewmill.program.program import Maintainer, Program, Recursive

Row = tuple[int, ...]  # the words of a row, and those of its null bits
Changes = dict[Row, int]

_MAX_ROWS = 10_000_000  # of one recursive CTE
_MAX_TIMES = 2**62
_ROW_BYTES = 300  # of a row with its derivations, roughly


def build(program: Program, build_step: Callable[[], Maintainer]) -> RecursionMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, Recursive)
    kind = BagRecursion if program.body.all else SetRecursion
    return kind(program, program.body, build_step)


class RecursionMaintainer(Maintainer):
    """A recursive CTE at work."""

    def __init__(
        self, program: Program, body: Recursive, build_step: Callable[[], Maintainer]
    ) -> None:
        self.program, self._body, self._build_step = program, body, build_step
        self.step = build_step()
        self._rows = next(e.schema for e in body.step.inputs if e.name == body.rows)
        self._derived: dict[Row, dict[int, int]] = {}  # derivations of a row by step
        self._fed: list[tuple[str, Delta]] = []  # to the step, since the commit
        self._given: list[tuple[str, Delta]] = []  # to the step, which has not committed it yet
        self._noted: list[tuple[int, Row, int]] = []  # derivations since the commit
        self._shown: Changes = defaultdict(int)  # change of the output since the commit
        self._waiting: dict[int, Changes] = {}  # changes of steps that were not gone through yet
        self._has_ended = False  # memory ran out in the middle of a step

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Take the change of the start, or of a table that the step joins."""
        change = delta.delta() if isinstance(delta, Product) else delta
        if not change.size:
            return
        if input == self._body.base:
            self._add(0, zip(_rows_of(change), change.multiplicities().tolist(), strict=True))
            return
        self.step.apply(input, change)
        self._given.append((input, _owned(change)))

    def flush(self) -> Delta:
        """Go through the steps, and give the change of the output since the last commit."""
        try:
            self._go()
            return _delta(self.program.output, self._shown)
        except MemoryError:
            self.is_lost = True
            raise

    def _go(self) -> None:
        if self._given:
            self._take(self.step.flush())
        while self._waiting:
            number = min(self._waiting)
            moved = self._go_through(number, self._waiting.pop(number))
            if moved:
                self._feed(number, moved)
        self._end_of_steps()

    def commit(self) -> None:
        """Keep what was applied."""
        self._fed.clear()
        self._noted.clear()
        self._shown = defaultdict(int)

    def rollback(self) -> None:
        """Undo everything applied since the last commit: the step is fed the opposite."""
        if self.is_lost:
            self.step.rollback()
            self._clear()
            return
        self.step.rollback()
        self._given.clear()
        while self._fed:
            input_, change = self._fed.pop()
            self.step.apply(input_, change.negated())
            self.step.flush()
            self.step.commit()
        while self._noted:
            number, row, times = self._noted.pop()
            self._note(row, number, -times)
        self._forget()

    def contents(self) -> Delta:
        """The output as committed."""
        if self.is_lost:
            raise OutOfMemory(
                "there was no memory for the rows of a recursive CTE, which were dropped",
                hint="REFRESH MATERIALIZED VIEW ... FULL, or the next change, fills them again.",
            )
        shown = {row: times for row in self._derived if (times := self._times(row))}
        for row, times in self._shown.items():
            shown[row] = shown.get(row, 0) - times
        return _delta(self.program.output, shown)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        own = {"derived": len(self._derived) * _ROW_BYTES}
        return {**own, **{f"step.{name}": n for name, n in self.step.state_bytes().items()}}

    @property
    def triggered(self) -> Maintainer:
        """The maintainer of the step."""
        return self.step

    @property
    def is_lost(self) -> bool:
        """Whether memory ran out in the middle of a step."""
        return self._has_ended or self.step.is_lost

    @is_lost.setter
    def is_lost(self, value: bool) -> None:
        self._has_ended = value

    def clear(self) -> None:
        """Forget everything, before a fill."""
        self.step = self._build_step()
        self._has_ended = False
        self._clear()

    def _clear(self) -> None:
        self._derived.clear()
        self._fed.clear()
        self._given.clear()
        self._noted.clear()
        self._forget()

    def _forget(self) -> None:
        self._shown, self._waiting = defaultdict(int), {}

    def _feed(self, number: int, moved: Changes) -> None:
        """Feed changed rows of a step back to it."""
        rows = _delta(
            self._rows, {_numbered(row, number, self._rows): n for row, n in moved.items()}
        )
        self.step.apply(self._body.rows, rows)
        self._given.append((self._body.rows, rows))
        self._take(self.step.flush())

    def _take(self, made: Delta) -> None:
        """Sort what the step made by the number of its step; that is kept of the step then."""
        self.step.commit()
        self._fed += self._given
        self._given.clear()
        if not made.size:
            return
        numbers = made.columns[-1].tolist()
        rows = _rows_of(_without_last(made, self.program.output))
        times = made.multiplicities().tolist()
        waiting = self._waiting
        for number, row, n in zip(numbers, rows, times, strict=True):
            changes = waiting.get(number + 1)
            if changes is None:
                changes = waiting[number + 1] = defaultdict(int)
            changes[row] += n

    def _add(self, number: int, rows: Iterable[tuple[Row, int]]) -> None:
        changes = self._waiting.setdefault(number, defaultdict(int))
        for row, n in rows:
            changes[row] += n

    def _note(self, row: Row, number: int, times: int) -> int:
        """Add derivations of a row in a step; gives how many there are now."""
        steps = self._derived.get(row)
        if steps is None:
            steps = self._derived[row] = {}
            self._check_size()
        now = steps.get(number, 0) + times
        if now:
            steps[number] = now
        else:
            steps.pop(number, None)
            if not steps:
                del self._derived[row]
        return now

    def _check_size(self) -> None:
        if len(self._derived) > _MAX_ROWS:
            raise EvaluationFailed(
                f"the recursion makes more than {_MAX_ROWS} rows",
                hint="Let the step stop earlier, by a condition in WHERE.",
                span=self._body.span,
            )

    def _check_limit(self, number: int) -> None:
        limit = self._body.limit
        if number >= limit:
            raise EvaluationFailed(
                limit_text(limit),
                detail="The batch was not applied.",
                hint=f"Allow more: WITH RECURSIVE r(...) MAX RECURSION LEVEL {2 * limit} AS (...)."
                " A cycle ends by itself in a UNION, never in a UNION ALL.",
                span=self._body.span,
            )

    # What the two kinds of UNION differ in.

    def _go_through(self, number: int, changes: Changes) -> Changes:
        """Take the changes of a step; gives those of the rows that belong to it."""
        raise NotImplementedError

    def _end_of_steps(self) -> None:
        """All steps have been gone through."""

    def _times(self, row: Row) -> int:
        """How often a row is in the output."""
        raise NotImplementedError


class BagRecursion(RecursionMaintainer):
    """UNION ALL: every derivation is a row."""

    def _go_through(self, number: int, changes: Changes) -> Changes:
        moved = {row: n for row, n in changes.items() if n}
        if moved:
            self._check_limit(number)
        for row, n in moved.items():
            if abs(self._note(row, number, n)) > _MAX_TIMES:
                self._noted.append((number, row, n))
                raise Overflow("a row is made too often by the recursion", span=self._body.span)
            self._noted.append((number, row, n))
            self._shown[row] += n
        return moved

    def _times(self, row: Row) -> int:
        return sum(self._derived[row].values())


class SetRecursion(RecursionMaintainer):
    """UNION: a row is there once, and belongs to the first step that makes it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._before: dict[Row, int | None] = {}  # the steps of changed rows before this flush

    def _go_through(self, number: int, changes: Changes) -> Changes:
        moved: Changes = {}
        before = self._before
        for row, n in changes.items():
            if row not in before:
                before[row] = self._first(row)
            if n:
                self._note(row, number, n)
                self._noted.append((number, row, n))
            now, old = self._first(row), before[row]
            if now == number and old != number:
                self._check_limit(number)
                moved[row] = 1
                if old is not None and old > number:
                    self._visit(row, old)
            elif old == number and now != number:
                moved[row] = -1
                if now is not None and now > number:
                    self._visit(row, now)
            elif old is not None and now is not None and old < number < now:
                self._visit(row, now)  # the step that it was to come back in lost it, too
        return moved

    def _visit(self, row: Row, number: int) -> None:
        """Come back to a row at a later step."""
        self._add(number, [(row, 0)])

    def _first(self, row: Row) -> int | None:
        steps = self._derived.get(row)
        if steps is None:
            return None
        return min((number for number, n in steps.items() if n > 0), default=None)

    def _end_of_steps(self) -> None:
        for row, old in self._before.items():
            is_there = self._first(row) is not None
            if is_there != (old is not None):
                self._shown[row] += 1 if is_there else -1
        self._before = {}

    def _times(self, row: Row) -> int:
        return int(self._first(row) is not None)

    def _forget(self) -> None:
        super()._forget()
        self._before = {}


def _rows_of(delta: Delta) -> Iterator[Row]:
    return map(tuple, delta.words().tolist())


def _numbered(row: Row, number: int, schema: Schema) -> Row:
    """A row with the number of its step behind its columns, before the words of its null bits."""
    width = len(schema) - 1
    nulls = row[width:]
    if (width + 1 + 62) // 63 > len(nulls):
        nulls = (*nulls, 0)
    return (*row[:width], number, *nulls)


def _without_last(delta: Delta, schema: Schema) -> Delta:
    columns, nulls = tuple(delta.columns[:-1]), tuple(delta.nulls[:-1])
    return Delta(schema, columns, nulls, delta.multiplicity, delta.size)


def _delta(schema: Schema, changes: Mapping[Row, int]) -> Delta:
    rows = [row for row, n in changes.items() if n]
    if not rows:
        return Delta.empty(schema)
    times = np.array([n for n in changes.values() if n], np.int64)
    return Delta.from_words(schema, np.array(rows, np.int64), times)


def _owned(delta: Delta) -> Delta:
    """A copy of a delta that was lent."""
    return delta.take(np.arange(delta.size))

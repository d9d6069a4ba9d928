"""What every maintainer must do, whatever it is built from.

takes  a way to make a maintainer, and batches: for each the deltas of its inputs, in order
does   stops after every call and rolls back, compares states; feeds the same change with other
       borders; builds states by `load` instead of by triggers

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import ViewmillError
from viewmill.program.program import Maintainer, Program
from viewmill.testing.oracle import Row, differences

Make = Callable[[], Maintainer]
Feed = Sequence[tuple[str, Delta]]  # one batch: input and delta, in order of the inputs
Bags = dict[str, list[Row]]


class Conformance:
    """The checks for one program over one dictionary."""

    def __init__(self, program: Program, dictionary: Dictionary, make: Make) -> None:
        self.program, self.dictionary, self.make = program, dictionary, make

    # Checks.

    def check_rollback(self, batches: Sequence[Feed], poison: Feed = ()) -> int:
        """Stop after the k-th call of every batch, for every k, and roll back: nothing has changed.

        `poison` is a batch that fails; it is tried after every commit. Gives the number of stops.
        """
        stopped, straight = self.make(), self.make()
        stops = 0
        for batch in batches:
            before = self.bags(stopped)
            for k in range(len(batch) + 2):
                self._stop_after(k, stopped, batch)
                stops += 1
                _same(before, self.bags(stopped), f"after {k} calls and a rollback")
            if poison:
                self._fail(stopped, poison)
                _same(before, self.bags(stopped), "after a failure and a rollback")
            one, other = self._commit(stopped, batch), self._commit(straight, batch)
            _same({"output": one}, {"output": other}, "the change after rollbacks")
            _same(self.bags(straight), self.bags(stopped), "after the commit")
        return stops

    def check_borders(self, batches: Sequence[Feed]) -> None:
        """One batch of all changes, batches row by row, and the batches given end alike."""
        given = self.run(batches)
        single = self.run([feed for batch in batches for feed in self._row_by_row(batch)])
        joined = self.run([self._joined(batches)])
        _same(self.bags(given), self.bags(single), "row by row")
        _same(self.bags(given), self.bags(joined), "all at once")

    def check_output(self, batches: Sequence[Feed]) -> None:
        """What is flushed adds up to what is shown, and no row of a flush is there twice."""
        maintainer = self.make()
        total = maintainer.contents()
        for batch in batches:
            for name, delta in batch:
                maintainer.apply(name, delta)
            change = maintainer.flush()
            assert consolidate(change).size == change.size, "a flush is not consolidated"
            maintainer.commit()
            total = consolidate(concat(total.schema, [total, change]))
            _same(
                {"output": self._rows(maintainer.contents())},
                {"output": self._rows(total)},
                "the sum of all changes",
            )

    def check_load(self, batches: Sequence[Feed], loaded: Maintainer) -> None:
        """A maintainer filled from definitions equals one that triggers built."""
        built = self.run(batches)
        _same(self.bags(built), self.bags(loaded), "load against triggers")

    def check_snapshot(self, batches: Sequence[Feed], more: Feed) -> None:
        """`load` is the inverse of `snapshot`, also for what comes afterwards."""
        first, second = self.run(batches), self.make()
        for state in self.states():
            second.load(state, list(first.snapshot(state)))
        second.commit()
        _same(self.bags(first), self.bags(second), "snapshot and load")
        one, other = self._commit(first, more), self._commit(second, more)
        _same({"output": one}, {"output": other}, "the change after snapshot and load")

    # Doing.

    def run(self, batches: Iterable[Feed]) -> Maintainer:
        """A maintainer that took these batches."""
        maintainer = self.make()
        for batch in batches:
            self._commit(maintainer, batch)
        return maintainer

    def _commit(self, maintainer: Maintainer, batch: Feed) -> list[Row]:
        for name, delta in batch:
            maintainer.apply(name, delta)
        change = maintainer.flush()
        maintainer.commit()
        return self._rows(change)

    def _stop_after(self, k: int, maintainer: Maintainer, batch: Feed) -> None:
        for name, delta in batch[:k]:
            maintainer.apply(name, delta)
        if k > len(batch):
            maintainer.flush()
        maintainer.rollback()

    def _fail(self, maintainer: Maintainer, batch: Feed) -> None:
        try:
            for name, delta in batch:
                maintainer.apply(name, delta)
            maintainer.flush()
        except ViewmillError:
            maintainer.rollback()
            return
        raise AssertionError("the poisoned batch did not fail")

    def _row_by_row(self, batch: Feed) -> list[Feed]:
        return [
            [(name, delta.take(np.array([i])))] for name, delta in batch for i in range(delta.size)
        ]

    def _joined(self, batches: Sequence[Feed]) -> Feed:
        by_input: dict[str, list[Delta]] = {}
        for batch in batches:
            for name, delta in batch:
                by_input.setdefault(name, []).append(delta)
        return [(name, concat(deltas[0].schema, deltas)) for name, deltas in by_input.items()]

    # Looking.

    def states(self) -> list[str]:
        """The names of what is kept."""
        return [state.name for state in self.program.states]

    def bags(self, maintainer: Maintainer) -> Bags:
        """The rows of the output and of every state, as committed."""
        found = {"output": self._rows(maintainer.contents())}
        for state in self.states():
            batches = list(maintainer.snapshot(state))
            found[state] = [row for batch in batches for row in _tuples(batch)]
        return found

    def _rows(self, delta: Delta) -> list[Row]:
        """Rows with their multiplicity as a last value."""
        table = decode_delta(consolidate(delta), self.dictionary, multiplicity="_multiplicity")
        return _tuples(table)


def _tuples(table: Any) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _same(expected: Mapping[str, list[Row]], actual: Mapping[str, list[Row]], when: str) -> None:
    for name, rows in expected.items():
        found = differences(rows, actual[name])
        assert not found, f"{when}: {name}: {'; '.join(found[:5])}"

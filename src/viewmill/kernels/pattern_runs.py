"""What a pattern view keeps: the numbers of its groups, and for each part the runs after it.

The runs of part j are those of the groups that have a row in j. A group that has none carries its
runs: they are found in the latest part before j that has a row of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import hash_rows
from viewmill.deltas.delta import Delta, Mask, Words, concat
from viewmill.kernels.pattern_kernels import PARTS, assign, compiled

Ints = npt.NDArray[np.int64]
Column = tuple[Words, Mask]
_REMEMBERED = 4  # parts
NEVER = np.iinfo(np.int64).min


class Groups:
    """Numbers for the keys of groups, given in order of arrival and never taken back."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._deltas: list[Delta] = []
        self._known = 0
        self._last: tuple[Delta, Ints] | None = None
        self._table = np.full(1024, -1, np.int64)
        self._keys = np.empty((512, max(1, Delta.empty(schema).words().shape[1])), np.int64)

    def __len__(self) -> int:
        return self._known

    def numbers(self, keys: Delta) -> Ints:
        """The number of each row's key."""
        if not len(self.schema):
            self._known = max(self._known, 1)
            return np.zeros(keys.size, np.int64)
        if self._last is not None and _has_same_words(self._last[0], keys):
            return self._last[1]  # the groups of the batch before, in the same order
        words = keys.words()
        self._make_room(len(words))
        numbers = np.empty(len(words), np.int64)
        hashes = hash_rows(words).view(np.int64)
        before = self._known
        self._known = compiled(assign)(words, hashes, self._table, self._keys, before, numbers)
        if self._known > before:
            first = np.full(self._known - before, -1, np.int64)
            is_new = np.flatnonzero(numbers >= before)[::-1]
            first[numbers[is_new] - before] = is_new  # the last write is the first row
            self._deltas.append(keys.take(first))
        self._last = keys, numbers
        return numbers

    def _make_room(self, rows: int) -> None:
        wanted = self._known + rows
        if wanted > len(self._keys):
            grown = np.empty((max(2 * len(self._keys), wanted), self._keys.shape[1]), np.int64)
            grown[: self._known] = self._keys[: self._known]
            self._keys = grown
        if 2 * wanted > len(self._table):
            self._table = np.full(1 << (4 * wanted).bit_length(), -1, np.int64)
            held = self._keys[: self._known]
            again, numbers = np.empty_like(held), np.empty(self._known, np.int64)
            compiled(assign)(
                held, hash_rows(held).view(np.int64), self._table, again, 0, numbers
            )  # keys are met in the order of their numbers, so each gets its own again

    def keys(self, numbers: Ints) -> Delta:
        """The keys of these numbers."""
        if len(self._deltas) > 1:
            self._deltas = [concat(self.schema, self._deltas)]
        if not self._deltas:
            return Delta(self.schema, (), (), None, len(numbers))
        found = self._deltas[0].take(numbers)
        found.multiplicity = None
        return found


def _has_same_words(a: Delta, b: Delta) -> bool:
    if a.size != b.size:
        return False
    pairs = zip((*a.columns, *a.nulls), (*b.columns, *b.nulls), strict=True)
    return all(
        x is y or (x is not None and y is not None and np.array_equal(x, y)) for x, y in pairs
    )


class StreamOrder:
    """What all patterns over one stream and one GROUP BY share: groups, and parts in their order.

    A new part is sorted once, whichever of the views comes first; the others find it here.
    """

    def __init__(self, schema: Schema) -> None:
        self.groups = Groups(schema)
        self._parts: dict[int, tuple[Delta, tuple[Ints, Ints, Ints]]] = {}
        self.sorted_parts = 0  # so often was a part sorted
        self.patterns: WeakSet[Any] = WeakSet()  # that go through every part together
        self.sweeps: dict[tuple[int, ...], Any] = {}  # by the bodies, which they hold

    def find(self, part: int, rows: Delta) -> tuple[Ints, Ints, Ints] | None:
        """The order of these very rows, if a view before has found it."""
        known = self._parts.get(part)
        return known[1] if known is not None and known[0] is rows else None

    def note(self, part: int, rows: Delta, order: tuple[Ints, Ints, Ints]) -> None:
        """Remember the order of a part; of the last few only, for the views of one batch."""
        self.sorted_parts += 1
        self._parts.pop(part, None)
        self._parts[part] = rows, order
        while len(self._parts) > _REMEMBERED:
            self._parts.pop(next(iter(self._parts)))


@dataclass(frozen=True)
class Runs:
    """Runs, those of group g from starts[g] to before starts[g + 1]."""

    starts: Ints
    phase: Ints
    rows: Ints
    integers: Ints
    floats: npt.NDArray[np.float64]  # PARTS of each measure
    counts: Ints

    def take(self, groups: Ints) -> Runs:
        """The runs of some groups."""
        sizes = self.starts[groups + 1] - self.starts[groups]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.repeat(self.starts[groups] - starts[:-1], sizes) + np.arange(starts[-1])
        return Runs(
            starts, self.phase[at], self.rows[at], self.integers[at], self.floats[at],
            self.counts[at],
        )  # fmt: skip

    def same(self, group: int, other: Runs, theirs: int) -> bool:
        """Whether a group's runs are those of a group there."""
        a, b = slice(*self.starts[group : group + 2]), slice(*other.starts[theirs : theirs + 2])
        return all(
            np.array_equal(ours[a], thats[b], equal_nan=ours.dtype == np.float64)
            for ours, thats in zip(self.columns(), other.columns(), strict=True)
        )

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All but the starts."""
        return self.phase, self.rows, self.integers, self.floats, self.counts

    @classmethod
    def empty(cls, groups: int, measures: int) -> Runs:
        """No run at all."""
        none = np.empty(0, np.int64)
        wide = np.empty((0, measures), np.int64)
        zeros = np.zeros(groups + 1, np.int64)
        return cls(zeros, none, none, wide, np.empty((0, measures, PARTS)), wide)


def join_runs(pieces: list[Runs]) -> Runs:
    """The runs of the groups of all pieces, one piece behind the other."""
    sizes = np.concatenate([np.diff(each.starts) for each in pieces])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns = [np.concatenate(each) for each in zip(*(p.columns() for p in pieces), strict=True)]
    return Runs(starts, *columns)


def chosen_rows(order: Ints, starts: Ints, groups: Ints, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Of rows by group those of some groups: the rows, where each group starts, the groups."""
    sizes = starts[at + 1] - starts[at]
    own = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(starts[at] - own[:-1], sizes) + np.arange(own[-1])
    return order[rows], own, groups[at]


class Carried(NamedTuple):
    """The runs that groups bring from one part to later ones; their last rows are there."""

    part: int
    keys: Delta
    runs: Runs
    last: tuple[Column, ...]


@dataclass(frozen=True)
class RunsPart:
    """What is known after a part about the groups that have a row in it, by ascending number."""

    groups: Ints
    runs: Runs
    last: tuple[Column, ...]  # of the columns that the next row compares with
    source: Delta  # the rows it was computed from
    order: Ints  # the rows of the source by group and time
    starts: Ints  # where the rows of each group start in that order

    def find(self, groups: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Which of the groups are here, and where."""
        if np.array_equal(self.groups, groups):  # every group has a row in every part
            return np.ones(len(groups), np.bool_), np.arange(len(groups))
        at = np.searchsorted(self.groups, groups)
        at[at == len(self.groups)] = 0
        is_here = self.groups[at] == groups if len(self.groups) else np.zeros(len(at), np.bool_)
        return is_here, at

    def thinned(self, at: Ints) -> RunsPart:
        """Some of the groups without their rows, which cannot change any more."""
        last = tuple((words[at], mask[at]) for words, mask in self.last)
        none, starts = np.empty(0, np.int64), np.zeros(len(at) + 1, np.int64)
        empty = Delta.empty(self.source.schema)
        return RunsPart(self.groups[at], self.runs.take(at), last, empty, none, starts)

    @property
    def nbytes(self) -> int:
        """Bytes held besides the source."""
        arrays = [self.groups, self.order, self.starts, self.runs.starts, *self.runs.columns()]
        return sum(each.nbytes for each in arrays)

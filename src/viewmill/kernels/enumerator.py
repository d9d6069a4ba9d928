"""The rows of a factorized result: one after another, or only their number.

takes  an `Enumeration`, the stores of its states
gives  deltas of some thousand rows when somebody asks for the next; counts without any row
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from viewmill.deltas.consolidate import group_rows
from viewmill.deltas.delta import Delta
from viewmill.kernels.compiler import WORD, WORDS
from viewmill.program.program import Enumeration, ListedFactor

Keys = npt.NDArray[np.int64]
Counts = npt.NDArray[Any]  # int64, or Python's own where that is too narrow

_WIDE = 1 << 62
_ROWS = 16384


class _Store(Protocol):
    def export_payload(self) -> tuple[Keys, Any]: ...


class _Outlet(Protocol):
    def take(self) -> Delta: ...


class Enumerator:
    """Reads the states of a factorized result."""

    form = "factorized"

    def __init__(
        self,
        enumeration: Enumeration,
        functions: Callable[[str, tuple[Any, ...]], Callable[..., int]],
        stores: Mapping[str, _Store],
        outlet: _Outlet,
        end: tuple[Any, ...],
        check: Callable[[], None],
    ) -> None:
        self._enumeration, self._functions = enumeration, functions
        self._stores, self._outlet, self._end, self._check = stores, outlet, end, check
        self._kernel: Callable[..., int] | None = None
        self.moves = 0  # how often rows went to other places though the result is the same

    def deltas(self, rows: int = _ROWS) -> Iterator[Delta]:
        """The rows in batches; the states must not change in between."""
        if self._kernel is None:
            types = (WORDS, *(WORD,) * len(self._end))
            self._kernel = self._functions(self._enumeration.function, types)
        at = np.zeros(self._enumeration.depth + 1, np.int64)
        more = 1
        while more:
            at[-1] = rows
            more = self._kernel(at, *self._end)
            self._check()
            delta = self._outlet.take()
            if delta.size:
                yield delta

    def count(self) -> int:
        """How many rows there are."""
        _, (rows, *_) = self._stores[self._enumeration.counted].export_payload()
        if not len(rows):
            return 0
        low, high = rows[0].tolist()
        return int((low & 0xFFFFFFFFFFFFFFFF) + (high << 64))

    def distinct_count(self) -> int:
        """How many different rows there are."""
        if self._enumeration.factors is None:
            return self._distinct_by_looking()
        total = 1
        for factor in self._enumeration.factors:
            _, counts = self._by_key(factor)
            total *= sum(counts.tolist())
        return total

    def _distinct_by_looking(self) -> int:
        """Different values may make equal rows: they are compared."""
        seen: set[bytes] = set()
        for delta in self.deltas():
            kept = delta.take(delta.multiplicities() > 0)
            seen.update(row.tobytes() for row in kept.words())
        return len(seen)

    def _by_key(self, factor: ListedFactor) -> tuple[Keys, Counts]:
        """The keys that a list is found by, and how many different rows each leads to."""
        keys, _ = self._stores[factor.state].export_payload()
        names = (*factor.first, *factor.rest)
        counts: Counts = np.ones(len(keys), np.int64)
        for child in factor.children:
            theirs, found = self._by_key(child)
            ours = keys[:, [names.index(name) for name in child.first]]
            counts = _times(counts, _looked_up(theirs, found, ours))
        first = np.ascontiguousarray(keys[:, : len(factor.first)])
        if not len(keys):
            return first, counts
        at, group = group_rows(first)
        totals = np.zeros(len(at), counts.dtype)
        np.add.at(totals, group, counts)
        return first[at], totals


def _looked_up(keys: Keys, counts: Counts, wanted: Keys) -> Counts:
    """The counts of the wanted keys, 0 where there is none."""
    if not len(keys) or not len(wanted):
        return np.zeros(len(wanted), counts.dtype)
    _, group = group_rows(np.concatenate([keys, wanted]))
    by_group = np.zeros(int(group.max()) + 1, counts.dtype)
    by_group[group[: len(keys)]] = counts
    return by_group[group[len(keys) :]]


def _times(left: Counts, right: Counts) -> Counts:
    """The products, in Python's own numbers if their sum could leave 64 bits."""
    if len(left) and int(left.max()) * int(right.max()) * len(left) >= _WIDE:
        left = left.astype(object)
    return left * right

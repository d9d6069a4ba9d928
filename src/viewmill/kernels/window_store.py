"""The partials of one tree: which groups have rows in which panes, and any stretch of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.operation_calls import OperationCall
from viewmill.kernels.structures.windows.partials import (
    BINT,
    DABA,
    DEQUE,
    FLATFIT,
    INVERSE,
    MERGE,
    NAIVE,
    REMOVE,
    RUNNING,
    SET,
    TREE,
    TWOSTACKS,
)
from viewmill.kernels.window_library import window_kernel
from viewmill.kernels.window_payloads import WIDTHS, Component

Array = npt.NDArray[Any]

# What is kept beside partials, and the kernel that answers.
MODES = {
    "naive": (NAIVE, "answer_naive"),
    "panes_inv": (RUNNING, "answer_running"),
    "flatfat": (TREE, "answer_tree"),
    "bint": (BINT, "answer_tree"),
    "flatfit": (FLATFIT, "answer_flatfit"),
    "twostacks": (TWOSTACKS, "answer_twostacks"),
    "daba": (DABA, "answer_daba"),
    "slickdeque_inv": (INVERSE, "answer_inverse"),
    "slickdeque_noninv": (DEQUE, "answer_deque"),
}
_CURSORS = 7  # of a window that slides


class Layout:
    """Where the words and reals of components lie in a payload."""

    def __init__(self, components: Sequence[Component]) -> None:
        self.components = tuple(components)
        ops, words, reals = [], 0, 0
        self.places: list[tuple[int, int, int, int]] = []
        for each in components:
            first_word, first_real = words, reals
            for kind in each.kinds:
                word_width, real_width = _widths(each, kind)
                ops.append((kind, words, reals, word_width, real_width))
                words, reals = words + word_width, reals + real_width
            self.places.append((first_word, words, first_real, reals))
        self.words, self.reals = words, reals
        self.ops = np.array(ops, np.int64).reshape(-1, 5)

    def columns(self, number: int, words: Array, reals: Array) -> tuple[list[Array], list[Array]]:
        """The columns of one component."""
        first_word, end_word, first_real, end_real = self.places[number]
        own_words = [np.ascontiguousarray(words[:, i]) for i in range(first_word, end_word)]
        return own_words, [np.ascontiguousarray(reals[:, i]) for i in range(first_real, end_real)]

    def packed(self, lifted: Sequence[tuple[list[Array], list[Array]]], count: int) -> Payloads:
        """The payloads of rows, from the columns of all components."""
        words, reals = np.zeros((count, self.words), np.int64), np.zeros((count, self.reals))
        for place, (own_words, own_reals) in zip(self.places, lifted, strict=True):
            for i, column in enumerate(own_words):
                words[:, place[0] + i] = column
            for i, column in enumerate(own_reals):
                reals[:, place[2] + i] = column
        return words, reals


Payloads = tuple[Array, Array]


def nothing(layout: Layout, count: int) -> Payloads:
    """The payloads of no rows."""
    return np.zeros((count, layout.words), np.int64), np.zeros((count, layout.reals))


def _widths(component: Component, kind: int) -> tuple[int, int]:
    return component.width if len(component.kinds) == 1 else WIDTHS[kind]


class PartialStore:
    """Arrays with a block for each group; see `structures.windows.partials`."""

    def __init__(
        self, layout: Layout, technique: str, compiled: bool, operations: tuple[OperationCall, ...]
    ) -> None:
        self._layout = layout
        self._mode, answer = MODES[technique]
        if technique == "slickdeque_inv" and operations:
            # The sum of all rows so far may be too large for an operation that is not a sum.
            self._mode, answer = MODES["panes_inv"]
        self._change = window_kernel("partials", "change", compiled, operations)
        self._forget = window_kernel("partials", "forget", compiled, operations)
        self._answer = window_kernel("stretches", answer, compiled, operations)
        self._blocks = np.zeros((16, 7), np.int64)
        self._heap = np.full(64, -1, np.int64)
        self._heap[0] = 0
        self._panes = np.zeros(64, np.int64)
        self._words = np.zeros((64, layout.words), np.int64)
        self._reals = np.zeros((64, layout.reals))
        more = 0 if self._mode in (NAIVE, RUNNING) else 64
        self._more_words = np.zeros((more, layout.words), np.int64)
        self._more_reals = np.zeros((more, layout.reals))
        links = {FLATFIT: 2, DEQUE: len(layout.ops)}.get(self._mode, 0)
        self._links = np.zeros((64 if links else 0, links), np.int64)
        self._spare = np.zeros((1, layout.words), np.int64), np.zeros((1, layout.reals))
        self._journal: list[tuple[Array, Array, Array, Array, Array]] = []
        self._kept: dict[Any, _Kept] = {}  # by window

    def merge(self, groups: Array, panes: Array, payloads: Payloads) -> Array:
        """Add partials to those that are there; which of them were there already."""
        return self._do(groups, panes, np.full(len(groups), MERGE, np.int64), payloads)

    def set(self, groups: Array, panes: Array, payloads: Payloads) -> Array:
        """Put partials in the place of those that are there; those without rows go."""
        how = np.where(payloads[0][:, 0] == 0, REMOVE, SET)
        return self._do(groups, panes, how, payloads)

    def _do(self, groups: Array, panes: Array, how: Array, payloads: Payloads) -> Array:
        old = self._run(groups, panes, how, payloads)
        self._journal.append((groups, panes, *old))
        return old[0]

    def _run(
        self, groups: Array, panes: Array, how: Array, payloads: Payloads
    ) -> tuple[Array, Array, Array]:
        size = len(groups)
        was = np.zeros(size, np.int64)
        old_words = np.zeros((size, self._layout.words), np.int64)
        old_reals = np.zeros((size, self._layout.reals))
        if size:
            self._fit_groups(int(groups.max()) + 1)
        done = 0
        while True:
            done = self._change(
                done, groups, panes, how, *payloads, was, old_words, old_reals, *self._spare,
                self._blocks, self._heap, *self._arrays(),
            )  # fmt: skip
            if done == size:
                return was, old_words, old_reals
            self._grow()

    def _arrays(self) -> tuple[Any, ...]:
        return (
            self._panes, self._words, self._reals, self._more_words, self._more_reals,
            self._links, self._mode, self._layout.ops,
        )  # fmt: skip

    def commit(self) -> None:
        """Keep what was done."""
        self._journal.clear()

    def rollback(self) -> None:
        """Undo what was done since the last commit, the last first."""
        for groups, panes, was, words, reals in reversed(self._journal):
            back = slice(None, None, -1)
            how = np.where(was[back] == 1, SET, REMOVE)
            payloads = np.ascontiguousarray(words[back]), np.ascontiguousarray(reals[back])
            at = np.ascontiguousarray(groups[back]), np.ascontiguousarray(panes[back])
            self._run(*at, how, payloads)
        self._journal.clear()

    def answer(self, groups: Array, firsts: Array, ends: Array, window: Any = None) -> Payloads:
        """The aggregate of each group's partials whose panes are in [first, end).

        `window` tells apart those who ask, each for ever later stretches: what a technique keeps
        for one window that slides is its own.
        """
        size = len(groups)
        words, reals = (
            np.zeros((size, self._layout.words), np.int64),
            np.zeros((size, self._layout.reals)),
        )
        if size:
            self._fit_groups(int(groups.max()) + 1)
            kept = self._kept_for(window)
            self._answer(
                groups, firsts, ends, words, reals, *self._spare, *kept.arrays,
                self._blocks, *self._arrays(),
            )  # fmt: skip
        return words, reals

    def _kept_for(self, window: Any) -> _Kept:
        slides = self._mode in (RUNNING, TWOSTACKS, DABA)
        if not slides:
            window = None
        elif self._mode != RUNNING and self._kept and window not in self._kept:
            raise ValueError("a store for one window is asked for another")
        kept = self._kept.get(window)
        if kept is None:
            rows = 0 if not slides else 2 if self._mode == DABA else 1
            kept = self._kept[window] = _Kept(self._layout, rows)
        kept.fit(len(self._blocks))
        return kept

    def groups(self) -> Array:
        """The groups that have partials."""
        return np.flatnonzero(self._blocks[:, 1] > 0)

    def forget(self, groups: Array, pane: int) -> None:
        """Leave behind these groups' partials before a pane."""
        if len(groups):
            self._fit_groups(int(groups.max()) + 1)
            self._forget(groups, pane, self._blocks, self._heap, self._panes)

    def _fit_groups(self, count: int) -> None:
        if count > len(self._blocks):
            more = max(count, 2 * len(self._blocks)) - len(self._blocks)
            self._blocks = np.pad(self._blocks, ((0, more), (0, 0)))

    def _grow(self) -> None:
        more = len(self._panes)
        self._panes = np.pad(self._panes, (0, more))
        self._words = np.pad(self._words, ((0, more), (0, 0)))
        self._reals = np.pad(self._reals, ((0, more), (0, 0)))
        if len(self._more_words):
            self._more_words = np.pad(self._more_words, ((0, more), (0, 0)))
            self._more_reals = np.pad(self._more_reals, ((0, more), (0, 0)))
        if len(self._links):
            self._links = np.pad(self._links, ((0, more), (0, 0)))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        arrays = (
            self._blocks, self._panes, self._words, self._reals, self._more_words, self._more_reals,
            self._links, *(each for kept in self._kept.values() for each in kept.arrays),
        )  # fmt: skip
        return sum(each.nbytes for each in arrays)


class _Kept:
    """What a technique keeps for one window that slides: cursors and aggregates of each group."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._rows = rows  # for each group
        self._cursors = np.zeros((0, _CURSORS), np.int64)
        self._words = np.zeros((0, layout.words), np.int64)
        self._reals = np.zeros((0, layout.reals))

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        return self._cursors, self._words, self._reals

    def fit(self, groups: int) -> None:
        """Grow the arrays to hold this many groups."""
        more = groups - len(self._cursors)
        if self._rows and more > 0:
            self._cursors = np.pad(self._cursors, ((0, more), (0, 0)))
            self._words = np.pad(self._words, ((0, more * self._rows), (0, 0)))
            self._reals = np.pad(self._reals, ((0, more * self._rows), (0, 0)))

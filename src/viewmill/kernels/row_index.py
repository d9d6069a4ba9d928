"""The index of a checked table: which rows are there, how often, and in which order they came.

takes  rows as words (see `Delta.words`), with multiplicity
gives  what is wrong with a batch, judged on its net effect; the rows themselves

A bag is keyed by the whole row. A table with a primary key is keyed by that, and the other words
follow; what a step cannot do yet (insert a key that a later step frees) waits until `check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt

from viewmill.errors import InvalidArgument
from viewmill.kernels.background.row_kernels import row_kernels
from viewmill.kernels.columns import once_each
from viewmill.kernels.compiled_rows import CompiledRows
from viewmill.kernels.plain.rows import PlainRows

IntArray = npt.NDArray[np.int64]

_CHUNK = 65536
_RESERVE_ROWS = 4096  # from this batch size on memory is reserved for all rows at once


@dataclass(frozen=True)
class Problem:
    """A row that cannot be deleted because it is missing, or inserted because its key is taken."""

    kind: OneOf["missing", "duplicate"]
    words: tuple[int, ...]


class RowIndex:
    """Rows of `key_words + other_words` words; with `unique`, the key words are a primary key.

    They are in a dict until compiled code is there to hold them.
    """

    def __init__(
        self,
        key_words: int,
        other_words: int = 0,
        *,
        unique: bool = False,
        compiled: bool | None = None,
    ) -> None:
        if other_words and not unique:
            raise InvalidArgument("a bag is keyed by the whole row: other_words must be 0")
        self._key_words, self._width = key_words, key_words + other_words
        self._unique, self._shape = unique, (key_words, other_words)
        is_compiled = row_kernels.are_ready() if compiled is None else compiled
        self._rows: CompiledRows | PlainRows = (
            CompiledRows(*self._shape) if is_compiled else PlainRows(*self._shape)
        )
        self._may_compile = not is_compiled and compiled is None
        self._is_staged = False  # something was, since the last commit
        self._saved = (0, 0)  # sequence and total at the last commit
        self._waiting: list[tuple[IntArray, IntArray]] = []
        # Keeps the sequence words out of the copies that callers see.
        self._columns = [*range(key_words), *range(key_words + 2, self._width + 2)]

    def __len__(self) -> int:
        return self._rows.total

    @property
    def bytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

    def _go_over(self) -> None:
        """Hold the rows in compiled structures from now on; nothing is staged."""
        rows = CompiledRows(*self._shape)
        rows.take_over(self._rows.export(), *self._saved)
        self._rows, self._may_compile = rows, False

    def stage(self, words: IntArray, multiplicity: IntArray | None) -> None:
        """Add rows to the batch under way; None inserts each of them once."""
        words, size = self._checked(words), len(words)
        if multiplicity is None:
            multiplicity = once_each(size)[:size]
        else:
            multiplicity = _checked_words(multiplicity, size)
        if self._may_compile and not self._is_staged and row_kernels.are_ready(size):
            self._go_over()
        self._is_staged = True
        if size >= _RESERVE_ROWS:
            self._rows.expect(size)
        if self._unique:
            self._stage_unique(words, multiplicity)
        else:
            self._rows.stage_bag(words, multiplicity)

    def check(self) -> Problem | None:
        """What is wrong with the batch as a whole, if anything."""
        if self._unique:
            return self._check_unique() if self._waiting else None
        missing = self._rows.first_missing()
        return None if missing is None else Problem("missing", missing)

    def commit(self) -> None:
        """Keep the batch. Call `check` first."""
        self._waiting, self._is_staged = [], False
        self._rows.commit()
        self._saved = self._rows.counts()

    def rollback(self) -> None:
        """Discard the uncommitted batch."""
        self._waiting, self._is_staged = [], False
        self._rows.rollback()
        self._rows.sequence, self._rows.total = self._saved

    def load(self, words: IntArray, multiplicity: IntArray) -> Problem | None:
        """Replace everything, as committed; stops at the first problem."""
        self._rows.clear()
        self._saved, self._waiting, self._is_staged = (0, 0), [], False
        if self._may_compile and row_kernels.are_ready(len(words)):
            self._go_over()
        self._rows.reserve(len(words))
        for start in range(0, len(words), _CHUNK):
            self.stage(words[start : start + _CHUNK], multiplicity[start : start + _CHUNK])
            problem = self.check()
            if problem is not None:
                self.rollback()
                return problem
            self.commit()
        return None

    def export(self) -> tuple[IntArray, IntArray]:
        """The rows as committed and their multiplicities, in the order of first insertion."""
        rows = self._rows.export()
        rows = rows[np.argsort(rows[:, self._key_words + 1], kind="stable")]
        multiplicity = np.ascontiguousarray(rows[:, self._key_words])
        return np.ascontiguousarray(rows[:, self._columns]), multiplicity

    def find(self, keys: IntArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """Which keys are there now, and the whole rows of those; other rows of words are 0."""
        keys = np.ascontiguousarray(keys, np.int64)
        if keys.ndim != 2 or keys.shape[1] != self._key_words:
            raise InvalidArgument(f"keys of {self._key_words} words are needed, got {keys.shape}")
        found = np.zeros(len(keys), np.uint8)
        rows = np.zeros((len(keys), self._width), np.int64)
        self._rows.find(keys, found, rows)
        return found.view(np.bool_), rows

    def _checked(self, words: IntArray) -> IntArray:
        if words.ndim != 2 or words.shape[1] != self._width or words.dtype != np.int64:
            raise InvalidArgument(
                f"rows of {self._width} int64 words are needed, got {words.shape} of {words.dtype}"
            )
        return words if words.flags.c_contiguous else np.ascontiguousarray(words)

    def _stage_unique(self, words: IntArray, multiplicity: IntArray) -> None:
        rows, left = self._rows.stage_unique(words, multiplicity)
        if len(rows):
            self._waiting.append((words[rows], left))

    def _check_unique(self) -> Problem | None:
        """Try once more what had to wait; a row and its opposite need not be done at all."""
        net: dict[tuple[int, ...], int] = {}
        for words, multiplicity in self._waiting:
            for row, m in zip(words.tolist(), multiplicity.tolist(), strict=True):
                net[tuple(row)] = net.get(tuple(row), 0) + m
        self._waiting = []
        left = {row: m for row, m in net.items() if m}
        if not left:
            return None
        self._stage_unique(np.array(list(left), np.int64), np.array([*left.values()], np.int64))
        if not self._waiting:
            return None
        words, multiplicity = self._waiting[0]
        kind: OneOf["missing", "duplicate"] = "missing" if multiplicity[0] < 0 else "duplicate"
        return Problem(kind, tuple(words[0].tolist()))


def _checked_words(array: IntArray, size: int) -> IntArray:
    if array.dtype != np.int64 or array.shape != (size,):
        raise InvalidArgument(f"{size} int64 words are needed, got {array.shape} of {array.dtype}")
    return np.ascontiguousarray(array)

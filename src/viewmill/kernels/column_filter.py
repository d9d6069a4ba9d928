"""Columns of Arrow tables as words, but only of the rows that pass a trigger's first tests.

takes  Arrow tables of one schema
gives  how many rows pass, their numbers, their words: good until the next table is read
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.lazy_columns import FilterTest, Words
from viewmill.kernels.arrow_columns import ARRAY_WORDS, RELEASE, is_text, kind_of, release_of
from viewmill.kernels.library import kernel
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import column_filter as structure
from viewmill.kernels.text_store import TextStore

_FIRST_ROOM, _MOST_ROOM = 1024, 1 << 16  # rows
_OPERATORS = {
    "=": structure.EQUAL, "<>": structure.OTHER, "<": structure.LESS, "<=": structure.AT_MOST,
    ">": structure.MORE, ">=": structure.AT_LEAST,
}  # fmt: skip


class ColumnFilter:
    """Reads columns of the rows that pass. The arrays hold them until the next table is read."""

    def __init__(
        self, types: Sequence[Any], tests: Sequence[FilterTest], strings: TextStore
    ) -> None:
        self._types, self._strings = types, strings
        self._fixed = dict(filter(None, map(self._word_said, tests)))
        self._reads = np.array([i not in self._fixed for i in range(len(types))], np.int64)
        self._has_strings = any(is_text(t) for i, t in enumerate(types) if i not in self._fixed)
        self._run = kernel(structure.filter_columns)
        self._kinds = np.array([*map(kind_of, types)], np.int64)
        self._choices: list[IntArray] = []  # kept alive: kernels read them by address
        coded = [self._coded(each) for each in _cheapest_first(tests)]
        self._tests = np.array([word for each in coded for word in each], np.int64)
        self._array = np.zeros(ARRAY_WORDS, np.int64)
        self._header = np.zeros(structure.HEADER_WORDS, np.int64)
        self._words = self._header.data
        self._place, self._handle = address_of(self._array), address_of(self._header)
        self._set(structure.COLUMNS, len(types))
        self._set(structure.KINDS, address_of(self._kinds))
        self._set(structure.TESTS, address_of(self._tests))
        self._set(structure.TEST_COUNT, len(coded))
        self._set(structure.TEXTS, strings.handle)
        self._set(structure.READ, address_of(self._reads))
        self._set(structure.TAKEN, -1)
        self.room = 0
        self._make_room(_FIRST_ROOM)

    def _set(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = value

    def _make_room(self, room: int) -> None:
        self.room = room
        self.rows = np.empty(room, np.int64)
        self._scratch = np.empty((2, room), np.int64)
        words = np.empty((len(self._types), room), np.int64)
        for column, word in self._fixed.items():
            words[column] = word
        self._set(structure.ROWS, address_of(self.rows))
        self._set(structure.SCRATCH, address_of(self._scratch))
        self._set(structure.WORDS, address_of(words))
        self._set(structure.ROOM, room)
        floats = [each == pa.float64() for each in self._types]
        self.columns: list[Words] = [
            row.view(np.float64) if is_float else row
            for row, is_float in zip(words, floats, strict=True)
        ]

    def _word_said(self, test: FilterTest) -> tuple[int, int] | None:
        """A column and the word that it has in every row that passes, if a test says so."""
        column, operator, words, other = test
        word = words[0] if operator == "=" and other is None and len(words) == 1 else None
        return (column, self._strings.intern(word)) if isinstance(word, str) else None

    def _coded(self, test: FilterTest) -> tuple[int, int, int, int]:
        column, operator, words, other = test
        code = _OPERATORS[operator]
        if other is not None:
            return column, code, structure.COLUMN, other
        if isinstance(words[0], str):
            ids = [self._strings.intern(str(each)) for each in words]
            places = [int(self._strings.places[each]) for each in ids]
            return column, code, structure.ONE_TEXT_OF, self._choice(places)
        numbers = [int(each) for each in words]
        if len(numbers) > 1:
            return column, code, structure.ONE_OF, self._choice(numbers)
        return column, code, structure.CONSTANT, numbers[0]

    def _choice(self, words: Sequence[int]) -> int:
        self._choices.append(np.array([len(words), *words], np.int64))
        return address_of(self._choices[-1])

    def read(self, table: Any, size: int) -> int:
        """How many rows pass; less than 0 if the columns lie in pieces, or may hold a NULL."""
        if size > self.room:
            if size > _MOST_ROOM:
                return -1
            self._make_room(1 << (size - 1).bit_length())
        batches = table.to_batches()
        if len(batches) != 1:
            return -1
        batches[0]._export_to_c(self._place)
        if self._has_strings:
            return self._run_with_strings(size)
        return self._run(self._place, self._handle, size)

    def _run_with_strings(self, size: int) -> int:
        with self._strings.lock:
            found = self._run(self._place, self._handle, size)
            while found == structure.NO_ROOM:
                try:
                    self._strings.make_room()
                except BaseException:
                    self._set(structure.TAKEN, -1)
                    release_of(int(self._array[RELEASE]))(self._place)
                    raise
                found = self._run(self._place, self._handle, size)
        return found


def _cheapest_first(tests: Sequence[FilterTest]) -> list[FilterTest]:
    """Numbers compared with constants, then with columns, then strings."""

    def cost(test: FilterTest) -> int:
        _, _, words, other = test
        return 1 if other is not None else 2 * isinstance(words[0], str)

    return sorted(tests, key=cost)

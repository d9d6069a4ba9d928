"""What a window shows of each group, and the numbers that stand for groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import group_rows
from viewmill.deltas.delta import Delta, null_words, word_dtype
from viewmill.kernels.pane_queue import Groups
from viewmill.kernels.window_payloads import Aggregate, Rows

Array = npt.NDArray[Any]


class Answers:
    """The last answer of each group, as columns with one place per group.

    The schema is that of answers: a number, the keys, the aggregates.
    """

    def __init__(
        self, schema: Schema, keys: int, aggregates: Sequence[Aggregate], *, is_grouped: bool
    ) -> None:
        self._schema, self._keys, self._aggregates = schema, keys, aggregates
        self._key_schema = Schema(schema.fields[1 : 1 + keys])
        self._numbers: dict[bytes, int] = {}
        self._key_words = np.zeros((0, keys + null_words(keys)), np.int64)
        self._shows = np.zeros(0, np.bool_)
        self._values = [np.zeros(0, word_dtype(each.type)) for each in schema.fields[1 + keys :]]
        self._nulls = [np.zeros(0, np.bool_) for _ in self._values]
        if not is_grouped:
            self._show_nothing()

    def _show_nothing(self) -> None:
        """Without GROUP BY there is always one answer: of no rows, at first."""
        self._number(b"")
        nothing = np.zeros(0, np.int64)
        values = tuple(nothing for _ in range(64))
        rows = Rows(nothing, 1, nothing, values, (None,) * 64)
        lifted = Groups(np.zeros(1, np.int64), tuple(a.lift(rows) for a in self._aggregates))
        self._set(lifted.ids, lifted, np.zeros(1, np.int64))
        self._shows[0] = True

    def copy(self) -> Answers:
        """Answers that stay as these are now. Numbers of groups are never given twice."""
        made = object.__new__(Answers)
        made.__dict__.update(self.__dict__)
        made._shows = self._shows.copy()
        made._values = [each.copy() for each in self._values]
        made._nulls = [each.copy() for each in self._nulls]
        return made

    @property
    def nbytes(self) -> int:
        """Memory held."""
        columns = sum(each.nbytes for each in (*self._values, *self._nulls))
        return columns + self._key_words.nbytes + 100 * len(self._numbers)

    # Groups.

    def group_ids(self, rows: Delta, first: int, end: int) -> Array:
        """The number of each row's group; columns `first` to `end` are the keys."""
        if first == end or not rows.size:
            return np.zeros(rows.size, np.int64)
        keys = Delta(
            self._key_schema, rows.columns[first:end], rows.nulls[first:end], None, rows.size
        )
        words = keys.words()
        starts, groups = group_rows(words)
        distinct = np.ascontiguousarray(words[starts])
        known = np.array([self._number(each.tobytes()) for each in distinct], np.int64)
        return known[groups]

    def _number(self, key: bytes) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        if number >= len(self._key_words):
            self._grow(max(16, 2 * len(self._key_words)))
            for each, place in self._numbers.items():
                if each:
                    self._key_words[place] = np.frombuffer(each, np.int64)
        elif key:
            self._key_words[number] = np.frombuffer(key, np.int64)
        return number

    def _grow(self, size: int) -> None:
        more = size - len(self._key_words)
        self._key_words = np.pad(self._key_words, ((0, more), (0, 0)))
        self._fit(size)

    def _fit(self, size: int) -> None:
        if len(self._shows) < size:
            more = size - len(self._shows)
            self._shows = np.pad(self._shows, (0, more))
            self._values = [np.pad(each, (0, more)) for each in self._values]
            self._nulls = [np.pad(each, (0, more)) for each in self._nulls]

    # Answers.

    def renew(self, ids: Array, answer: Groups | None) -> Delta:
        """Answer these groups anew; for each the old row goes, then the new one comes."""
        self._fit(len(self._key_words))
        old = self._rows(ids[self._shows[ids]], -1)
        places_old = np.flatnonzero(self._shows[ids]) * 2
        if answer is None:
            here = np.zeros(len(ids), np.bool_)
        else:
            at = np.minimum(np.searchsorted(answer.ids, ids), len(answer.ids) - 1)
            here = (answer.ids[at] == ids) & (answer.payloads[0][0][at] > 0)
            self._set(ids[here], answer, at[here])
        self._shows[ids] = here
        if self._keys == 0 and not here[0]:
            self._show_nothing()
            here[0] = True
        new = self._rows(ids[here], 1)
        places = np.concatenate([places_old, np.flatnonzero(here) * 2 + 1])
        both = [np.concatenate(pair) for pair in zip(old.columns, new.columns, strict=True)]
        masks = [np.concatenate(pair) for pair in zip(*map(_masks, (old, new)), strict=True)]
        times = np.concatenate([old.multiplicities(), new.multiplicities()])
        change = Delta(self._schema, tuple(both), tuple(masks), times, len(times))
        return change.take(np.argsort(places, kind="stable"))

    def _set(self, ids: Array, answer: Groups, places: Array) -> None:
        """Show the answer's places for these groups."""
        for i, aggregate in enumerate(self._aggregates[1:]):
            payload = tuple(each[places] for each in answer.payloads[i + 1])
            values, null = aggregate.finish(payload)
            self._values[i][ids] = np.where(null, 0, values)
            self._nulls[i][ids] = null

    def shown(self) -> Delta:
        """The answer of every group that has one."""
        return self._rows(np.flatnonzero(self._shows), 1)

    def _rows(self, ids: Array, times: int) -> Delta:
        keys = Delta.from_words(self._key_schema, self._key_words[ids], None)
        columns = (ids.copy(), *keys.columns, *(each[ids] for each in self._values))
        nulls = (None, *keys.nulls, *(each[ids].astype(np.uint8) for each in self._nulls))
        masks = tuple(m if f.nullable else None for m, f in zip(nulls, self._schema, strict=True))
        return Delta(self._schema, columns, masks, np.full(len(ids), times), len(ids))


def _masks(delta: Delta) -> list[Array]:
    return [np.zeros(delta.size, np.uint8) if m is None else m for m in delta.nulls]

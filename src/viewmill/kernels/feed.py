"""What turns a delta of one input into the arguments of its trigger.

takes  a delta
gives  columns that were looked at, for compiled code believes what it is given; of rows that come
       as Arrow only those that pass the trigger's first tests
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import is_float_word
from viewmill.deltas.delta import Delta, Words
from viewmill.deltas.lazy_columns import Encode, FilterTest, LazyWords, PushedFilter
from viewmill.errors import InvalidArgument
from viewmill.kernels.columns import checked_words, no_nulls, once_each
from viewmill.kernels.compiler import BYTES, F64, FLOATS, I64, U8, WORD, WORDS
from viewmill.kernels.stores import LentWords
from viewmill.kernels.summing import Summing
from viewmill.program.program import Test, Trigger

Kernel = Callable[..., int]
Functions = Callable[[str, tuple[Any, ...]], Kernel]  # by name and argument types


def _test(test: Test, places: Mapping[str, int]) -> FilterTest:
    other = None if test.other is None else places[test.other]
    return places[test.column], test.operator, test.words, other


class Feed:
    """What turns a delta of one input into the arguments of its trigger."""

    def __init__(
        self,
        schema: Schema,
        trigger: Trigger,
        functions: Functions,
        end: tuple[Any, ...],
        has_lookups: bool = False,
    ) -> None:
        found = [schema.names.index(name) for name in trigger.columns]
        # For each column: its position, the dtype of its words, and whether a mask follows.
        self._positions = tuple(found)
        self._columns = [
            (i, F64 if is_float_word(schema[i].type) else I64, schema[i].nullable) for i in found
        ]
        # How many arguments the columns are, and where their words are among all of them.
        step = 2 if all(nullable for _, _, nullable in self._columns) else 1
        self._width = step * len(found)
        self._words = slice(1, 1 + self._width, step)
        self._is_even = step == 2 or not any(nullable for _, _, nullable in self._columns)
        self._end = end
        types: list[Any] = [WORD, WORD, WORDS]
        for _, dtype, nullable in self._columns:
            types.append(FLOATS if dtype is F64 else WORDS)
            types += [BYTES] if nullable else []
        self.kernel = functions(trigger.function, (*types, *(WORD,) * len(end)))
        self.summing = Summing([schema.names.index(name) for name in trigger.keys])
        places = {name: i for i, name in enumerate(trigger.columns)}
        self._tests = (
            () if has_lookups else tuple(_test(each, places) for each in trigger.pushed_filter)
        )
        self._encode: Encode | None = None  # of the last rows that came as Arrow
        self._filter: PushedFilter | None = None  # for rows of that kind
        self._last_filter: PushedFilter | None = None  # whose arrays are in `_filtered`
        self._room = 0
        self._filtered: list[Any] = []
        self._lent: Sequence[Any] = ()  # where another kernel emits, and what it makes of arguments
        self._lent_arguments: list[Any] = []
        self.rows: npt.NDArray[np.int64] | None = None  # that were given last, None if all

    def repeats(self, delta: Delta, size: int) -> bool:
        """Whether a batch may be summed by key first, because keys repeat in it."""
        if not self.summing.may_pay(size):
            return False
        if delta.lazy is not None:
            delta.lazy.read(self._positions)  # all at once, for `arguments`
        return self.summing.repeat(delta, size)

    def given(self, delta: Delta) -> tuple[int, list[Any]]:
        """How many rows the trigger gets, and its arguments; rows it would skip may stay out."""
        size, arguments = self.at_once(delta)
        return size, self.arguments(delta) if arguments is None else arguments

    def at_once(self, delta: Delta) -> tuple[int, list[Any] | None]:
        """Reuse the argument arrays of the pushed-down filter or of the upstream kernel, if any."""
        columns, size = delta.columns, delta.size
        if type(columns) is LazyWords:
            lazy = columns.lazy
            if lazy.encode is not self._encode:
                self._meet(lazy.encode)
            pushed = self._filter
            if pushed is not None and size:
                count = pushed.read(lazy.table.select(self._positions), size)
                if count >= 0:
                    return count, self._filtered_by(pushed, count, delta.multiplicity)
        elif type(columns) is LentWords and columns.whole is self._lent and delta.is_from_kernel:
            self.rows = None
            return size, self._lent_arguments
        self.rows = None
        return size, None

    def _meet(self, encode: Encode) -> None:
        """Look up the filter for rows of another Arrow schema than before."""
        self._encode = encode
        self._filter = encode.pushed_filter(self._positions, self._tests) if self._tests else None

    def _filtered_by(self, pushed: PushedFilter, count: int, times: Words | None) -> list[Any]:
        if pushed is not self._last_filter or pushed.room != self._room:
            self._last_filter, self._room = pushed, pushed.room
            self._filtered = [*self._filter_arguments(pushed), *self._end]
        self.rows = pushed.rows
        return (
            self._filtered if times is None else [times[pushed.rows[:count]], *self._filtered[1:]]
        )

    def _arguments_from_kernel(self, delta: Delta) -> list[Any]:
        """The arguments from what another kernel has emitted, which needs no check."""
        columns, nulls, none = delta.columns, delta.nulls, no_nulls(delta.size)
        if type(columns) is LentWords:
            if columns.whole is not self._lent:
                self._lent, self._lent_arguments = columns.whole, self._arguments_of(columns.whole)
            return self._lent_arguments
        result: list[Any] = [delta.multiplicity]
        for i, _, nullable in self._columns:
            result.append(columns[i])
            if nullable:
                mask = nulls[i]
                result.append(none if mask is None else mask)
        result += self._end
        return result

    def _arguments_of(self, whole: Sequence[Any]) -> list[Any]:
        """The arguments from the arrays that another kernel always emits into."""
        result, none = [whole[-1]], no_nulls(len(whole[-1]))
        for i, _, nullable in self._columns:
            result += (whole[i], none) if nullable else (whole[i],)
        return [*result, *self._end]

    def _filter_arguments(self, pushed: PushedFilter) -> Iterator[Any]:
        yield once_each(pushed.room)
        for words, (_, _, nullable) in zip(pushed.columns, self._columns, strict=True):
            yield words
            if nullable:
                yield no_nulls(pushed.room)

    def arguments(self, delta: Delta) -> list[Any]:
        """Everything after start and size, checked: compiled code believes what it is given."""
        size, multiplicity = delta.size, delta.multiplicity
        if delta.is_from_kernel:
            return self._arguments_from_kernel(delta)
        result: list[Any] = [
            once_each(size) if multiplicity is None else checked_words(multiplicity, I64, size)
        ]
        lazy = delta.lazy
        words_at_once = None if lazy is None else lazy.read(self._positions)
        if words_at_once is not None:  # by code that knows their types and looked for NULL
            if self._is_even:
                result += [no_nulls(size)] * self._width
                result[self._words] = words_at_once
            else:
                for words, (_, _, nullable) in zip(words_at_once, self._columns, strict=True):
                    result += (words, no_nulls(size)) if nullable else (words,)
            result += self._end
            return result
        columns, nulls = delta.columns, delta.nulls
        for i, dtype, nullable in self._columns:
            words, mask = (columns[i], nulls[i]) if lazy is None else lazy.pair(i)
            result.append(checked_words(words, dtype, size))
            if nullable:
                result.append(no_nulls(size) if mask is None else checked_words(mask, U8, size))
            elif mask is not None and mask.any():
                raise InvalidArgument(f"NULL in column {i}, which is declared NOT NULL")
        result += self._end
        return result

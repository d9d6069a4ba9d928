"""Where compiled states live: the memory that kernels read by address, made and grown here."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_int64, string_at
from typing import Any, final, overload

import numpy as np
import numpy.typing as npt

from viewmill.algebra.packed import Packed
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Type
from viewmill.deltas.delta import Delta, Mask, Words, word_dtype
from viewmill.kernels.library import kernel
from viewmill.kernels.payloads import Payload
from viewmill.kernels.structures import exact_pools, exact_sums, keyed
from viewmill.kernels.structures.emit import COLUMN_BYTES, FIRST_COLUMN
from viewmill.program.states import Keyed, Slot

IntArray = npt.NDArray[np.int64]

_SMALLEST, _FIRST_ROOM = 64, 256


def address_of(array: npt.NDArray[np.int64] | npt.NDArray[np.uint8]) -> int:
    """The address of an array's data; the caller keeps the array alive."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


_POOL = exact_pools.POOL >> 3


class LongSums:
    """The sums of a state that are long numbers (see `exact_sums`), through its header."""

    def __init__(self, owner: object, header: IntArray) -> None:
        self._words, self._handle = header.data, address_of(header)
        weakref.finalize(owner, _release_pool, header)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        pool = self._words[_POOL]
        return c_int64.from_address(pool + exact_pools.BYTES).value if pool else 0

    def commit(self) -> None:
        """Keep what was done."""
        if self._words[_POOL]:
            kernel(exact_pools.pool_commit)(self._handle)

    def rollback(self) -> None:
        """Go back to the last commit."""
        if self._words[_POOL]:
            kernel(exact_pools.pool_rollback)(self._handle)

    def clear(self) -> None:
        """Hold none."""
        if self._words[_POOL]:
            kernel(exact_pools.pool_clear)(self._handle)

    def load(
        self, find_row: Callable[..., int], rows: IntArray, slots: Sequence[Slot], payload: Payload
    ) -> None:
        """Add what did not fit the words of rows that were loaded."""
        word = 0
        for slot, values in zip(slots, payload, strict=True):
            if slot.kind == "sum" and values.shape[1] > slot.words:
                more = np.ascontiguousarray(values[:, slot.words :])
                for i in np.flatnonzero(more.any(axis=1)).tolist():
                    place = find_row(self._handle, address_of(rows[i])) + 8 * word
                    kernel(exact_sums.pool_add_floats)(
                        self._handle, place, address_of(more[i].view(np.int64)), more.shape[1]
                    )
            word += slot.words
        self.commit()


def _release_pool(header: IntArray) -> None:
    if header[_POOL]:
        kernel(exact_pools.pool_clear)(address_of(header))


def long_floats(number: int) -> list[float]:
    """Floats whose exact sum is the long number at an address."""
    value = int.from_bytes(string_at(number, 8 * exact_sums.LIMBS), "little", signed=True)
    highest = exact_sums.LOWEST + 971  # where the last bit of the largest float is
    floats = []
    while value:
        last = min(max(abs(value).bit_length() - 53, 0), highest)
        part = min(abs(value) >> last, (1 << 53) - 1) * (1 if value > 0 else -1)
        floats.append(math.ldexp(part, last - exact_sums.LOWEST))
        value -= part << last
    return floats


class Table:
    """A keyed structure with its header, table and journal. `handle` is what kernels get."""

    def __init__(self, key_words: int, kinds: Sequence[int]) -> None:
        self._kinds = np.array([*kinds, 0], np.int64)
        self._stride = 2 + key_words + len(kinds)  # in words
        self._header = np.zeros(keyed.HEADER_WORDS, np.int64)
        self.handle = address_of(self._header)
        self.words = self._header.data
        self._set(keyed.KEY_WORDS, key_words)
        self._set(keyed.PAYLOAD_WORDS, len(kinds))
        self._set(keyed.STRIDE, 8 * self._stride)
        self._set(keyed.KINDS, address_of(self._kinds))
        self._commit, self._rollback = kernel(keyed.commit), kernel(keyed.rollback)
        self._long = LongSums(self, self._header)
        self.clear()

    def get(self, offset: int) -> int:
        """A word of the header."""
        return self.words[offset >> 3]

    def _set(self, offset: int, value: int) -> None:
        self.words[offset >> 3] = value

    def __len__(self) -> int:
        return self.get(keyed.COUNT)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self._table.nbytes + self._journal.nbytes + self._header.nbytes
        return int(held) + self._long.nbytes

    def clear(self) -> None:
        """Hold nothing, in little memory."""
        self._long.clear()
        self._make_table(_SMALLEST)
        self._set(keyed.TABLE, address_of(self._table))
        self._set(keyed.MASK, _SMALLEST - 1)
        self._set(keyed.COUNT, 0)
        self._make_journal(_FIRST_ROOM)
        self._set(keyed.TOUCHED, 0)

    def _make_table(self, capacity: int) -> None:
        self._table = np.zeros(capacity * self._stride, np.int64)
        self._set(keyed.LIMIT, capacity // 4 * 3)

    def _make_journal(self, room: int) -> None:
        self._journal = np.empty(room * self._stride, np.int64)
        self._set(keyed.JOURNAL, address_of(self._journal))
        self._set(keyed.ROOM, room)

    def reserve(self, count: int) -> None:
        """Room for `count` entries in all."""
        capacity = _SMALLEST
        while capacity // 4 * 3 <= count:
            capacity *= 2
        if capacity != self.get(keyed.MASK) + 1:
            old = self._table  # alive until its entries have moved
            self._make_table(capacity)
            kernel(keyed.rehash)(self.handle, address_of(self._table), capacity)
            del old

    def expect(self, more: int) -> None:
        """Reserve space for new entries, so that entries move once, not at every doubling."""
        count, touched = self.get(keyed.COUNT), self.get(keyed.TOUCHED)
        if count + more >= self.get(keyed.LIMIT):
            self.reserve(count + more)
        if touched + more >= self.get(keyed.ROOM):
            self._grow_journal(touched + more + 1)

    def _grow_journal(self, room: int) -> None:
        old, held = self._journal, self.get(keyed.TOUCHED) * self._stride
        self._make_journal(room)
        self._journal[:held] = old[:held]

    def make_room(self) -> bool:
        """Grow whatever is full; gives whether anything was."""
        count, touched = self.get(keyed.COUNT), self.get(keyed.TOUCHED)
        full = count >= self.get(keyed.LIMIT)
        if full:
            self.reserve(count + 1)
        if touched < self.get(keyed.ROOM):
            return full
        self._grow_journal(touched * 4)
        return True

    def commit(self) -> None:
        """Keep what was done; give memory back that is no longer needed."""
        if self._commit(self.handle):
            self._shrink()
        self._long.commit()

    def _shrink(self) -> None:
        if len(self) * 8 < self.get(keyed.MASK) + 1:
            self.reserve(len(self) * 2)
        if self.get(keyed.ROOM) > _FIRST_ROOM:
            self._make_journal(max(self.get(keyed.ROOM) // 4, _FIRST_ROOM))

    def rollback(self) -> None:
        """Go back to the last commit."""
        self._rollback(self.handle)
        self._long.rollback()

    def touched_key(self, t: int) -> tuple[int, ...]:
        """The key of touched entry t."""
        at = t * self._stride + 2
        return tuple(self._journal[at : at + self.get(keyed.KEY_WORDS)].tolist())

    def show_committed(self, on: bool) -> None:
        """Whether scans see entries as they were at the last commit."""
        self._set(keyed.COMMITTED, int(on))

    def load(self, rows: IntArray) -> None:
        """Add rows of key and payload words, as committed."""
        rows = np.ascontiguousarray(rows)
        self.reserve(len(self) + len(rows))
        kernel(keyed.load_rows)(self.handle, address_of(rows), len(rows))

    def export(self) -> IntArray:
        """Rows of key and payload words, as committed."""
        rows = np.empty((len(self), self._stride - 2), np.int64)
        self.show_committed(True)
        size = kernel(keyed.export_rows)(self.handle, address_of(rows))
        self.show_committed(False)
        return rows[:size]


class KeyedStore(Table):
    """A compiled `Keyed` state."""

    def __init__(self, kind: Keyed) -> None:
        self.kind = kind
        super().__init__(kind.key_words, word_kinds(kind.payload))

    def load_payload(self, keys: IntArray, payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        rows = payload_rows(keys, self.kind.payload, payload)
        self.load(rows)
        self._long.load(kernel(keyed.find_row), rows, self.kind.payload, payload)

    def export_payload(self) -> tuple[IntArray, Payload]:
        """Keys, and an array for each slot."""
        return row_payload(self.export(), self.kind.key_words, self.kind.payload)


def payload_rows(keys: IntArray, slots: Sequence[Slot], payload: Payload) -> IntArray:
    """Rows of key and payload words."""
    at = keys.shape[1]
    rows = np.zeros((len(keys), at + sum(slot.words for slot in slots)), np.int64)
    rows[:, :at] = keys
    for slot, values in zip(slots, payload, strict=True):
        if slot.kind == "sum":
            fit = min(values.shape[1], slot.words)
            rows[:, at : at + fit] = (values[:, :fit] + 0.0).view(np.int64)
        elif slot.kind == "wide":
            rows[:, at : at + 2] = values
        elif slot.kind == "floats":
            rows[:, at : at + slot.words] = np.ascontiguousarray(values).view(np.int64)
        else:
            rows[:, at] = values
        at += slot.words
    return rows


def row_payload(rows: IntArray, at: int, slots: Sequence[Slot]) -> tuple[IntArray, Payload]:
    """The inverse: keys of `at` words, and an array for each slot."""
    payload = Payload()
    keys = np.ascontiguousarray(rows[:, :at])
    for slot in slots:
        words = np.ascontiguousarray(rows[:, at : at + slot.words])
        if slot.kind == "sum":
            payload.append(_sum_floats(words))
        elif slot.kind == "floats":
            payload.append(words.view(np.float64))
        else:
            payload.append(words if slot.kind == "wide" else words[:, 0])
        at += slot.words
    return keys, payload


def _sum_floats(words: IntArray) -> npt.NDArray[np.float64]:
    """The floats of sums, of which some may be long."""
    floats = words.view(np.float64)
    long = np.flatnonzero(words[:, 0] == exact_sums.MARK).tolist()
    if not long:
        return floats
    found = {i: long_floats(int(words[i, 1])) for i in long}
    made = np.zeros((len(words), max(3, *map(len, found.values()))))
    made[:, :3] = floats
    for i, parts in found.items():
        made[i, :3] = 0.0
        made[i, : len(parts)] = parts
    return made


def word_kinds(slots: Sequence[Slot]) -> list[int]:
    """What each payload word is to a structure that asks whether all is zero."""
    kinds: list[int] = []
    for slot in slots:
        ignored = slot.is_note or slot.kind == "floats"
        kinds += [keyed.IGNORED] * slot.words if ignored else _KINDS[slot.kind]
    return kinds


# Floats of a ring are not asked: the bag of the rows that made them is exact.
_KINDS = {
    "int": (keyed.EXACT,),
    "wide": (keyed.EXACT, keyed.EXACT),
    "sum": (keyed.EXACT,) * 3,
}


def _width(type_: Type) -> int:
    """Words of a value; an array of one number is -1, to tell it from the number."""
    if not isinstance(type_, Packed) or type_.is_single:
        return 1
    return type_.width if type_.width > 1 else -1


@final
class LentWords(Sequence[Words]):
    """Columns that stay where a kernel wrote them, until it writes again; `whole` are arrays with
    all the room there is, the multiplicities last."""

    __slots__ = ("size", "whole")

    def __init__(self, whole: Sequence[Words], size: int) -> None:
        self.whole, self.size = whole, size

    def __len__(self) -> int:
        return len(self.whole) - 1

    @overload
    def __getitem__(self, i: int) -> Words: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Words]: ...
    def __getitem__(self, i: int | slice) -> Words | Sequence[Words]:
        found = self.whole[:-1][i]
        return [each[: self.size] for each in found] if isinstance(i, slice) else found[: self.size]


def owned(delta: Delta) -> Delta:
    """A copy of the delta in arrays that no kernel writes again."""
    if type(delta.columns) is not LentWords:
        return delta
    columns = tuple(each.copy() for each in delta.columns)
    times = delta.multiplicities().copy()
    return Delta(delta.schema, columns, delta.nulls, times, delta.size, delta.is_from_kernel)


class Outlet:
    """The rows a kernel hands out, until `take` makes a delta of them."""

    _ROOM = 8192
    _WORDS = 1 << 20  # of packed values

    def __init__(self, schema: Schema) -> None:
        self._schema, width = schema, len(schema)
        widths = [_width(field.type) for field in schema]
        widest = max(map(abs, widths), default=1)
        room = self._room = max(min(self._ROOM, self._WORDS // widest), 16)
        self._words = np.empty((width + 1, room), np.int64)
        self._packed = {c: np.empty((room, abs(w))) for c, w in enumerate(widths) if w != 1}
        self._nulls = np.zeros((max(width, 1), room), np.uint8)
        header = np.zeros((FIRST_COLUMN + COLUMN_BYTES * width) // 8, np.int64)
        base, nulls = address_of(self._words), address_of(self._nulls)
        header[1], header[2] = room, width
        header[3] = base + 8 * room * width
        for c in range(width):
            packed = self._packed.get(c)
            words = base + 8 * room * c if packed is None else address_of(packed.view(np.int64))
            header[4 + 4 * c : 8 + 4 * c] = words, nulls + room * c, 0, abs(widths[c])
        self._header, self.handle = header, address_of(header)
        self._state = header.data
        floats = [word_dtype(field.type) is np.float64 for field in schema]
        self._floats = [c for c in range(width) if floats[c] and c not in self._packed]
        self._seen = range(6, 6 + 4 * width, 4)  # where the header says that a NULL was emitted
        self._nulls_seen = header[6::4].data if width else ()
        self._is_plain = not self._packed
        self._whole: list[Words] = list(self._words)
        for c in self._floats:
            self._whole[c] = self._whole[c].view(np.float64)
        self._no_nulls: tuple[Mask | None, ...] = (None,) * width
        self._nothing = Delta.empty(schema)
        self._lent_words, self._whole_times = LentWords(self._whole, 0), self._words[-1]
        self._lent = Delta(schema, self._lent_words, self._no_nulls, self._whole_times, 0, True)

    def take(self) -> Delta:
        """The rows so far, in arrays of their own; the outlet is empty again."""
        state = self._state
        n = state[0]
        if n == 0:
            return self._nothing
        state[0] = 0
        columns: list[Words] = list(self._words[:, :n].copy())
        multiplicity: Any = columns.pop()
        for c in self._floats:
            columns[c] = columns[c].view(np.float64)
        for c, packed in self._packed.items():
            columns[c] = packed[:n].copy()
        nulls = self._take_nulls(n) if any(self._nulls_seen) else self._no_nulls
        return Delta(self._schema, tuple(columns), nulls, multiplicity, n, self._is_plain)

    def lend(self) -> Delta:
        """The rows so far where they are, good until more are emitted; there are none left."""
        state = self._state
        n = state[0]
        if n == 0:
            return self._nothing
        if not self._is_plain or any(self._nulls_seen):
            return self.take()
        state[0] = 0
        lent = self._lent
        lent.size = self._lent_words.size = n
        lent.multiplicity = self._whole_times[:n]
        return lent

    def clear(self) -> None:
        """Forget the rows so far."""
        self._state[0] = 0
        self._nulls[:] = 0

    def _take_nulls(self, n: int) -> tuple[Mask | None, ...]:
        masks: list[Mask | None] = []
        for c, i in enumerate(self._seen):
            masks.append(self._nulls[c, :n].copy() if self._state[i] else None)
            if self._state[i]:
                self._state[i] = 0
                self._nulls[c, : n + 1] = 0
        return tuple(masks)


class Failure:
    """The first failure a kernel noted."""

    def __init__(self) -> None:
        self._array = np.zeros(2, np.int64)
        self.handle = address_of(self._array)
        self.words = self._array.data

    def noted(self) -> bool:
        """Whether there is one."""
        return self.words[0] != 0

    @property
    def row(self) -> int:
        """The row of the failure."""
        return int(self.words[1])

    def take(self) -> tuple[int, int]:
        """Return the code and row of the failure, and reset it."""
        code, row = self.words[0] - 1, self.words[1]
        self.words[0] = 0
        return code, row

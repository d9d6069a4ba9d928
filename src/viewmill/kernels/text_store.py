"""The strings of a mill where kernels read them: their ids are found over Arrow's own buffers.

takes  Arrow arrays of strings
gives  ids, and strings again; the place of every string, by id, for kernels that compare them
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ctypes import string_at
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.dictionary import Dictionary, Ids, string_array
from viewmill.deltas.wide_codes import Wides
from viewmill.errors import OutOfMemory
from viewmill.kernels.library import kernel
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import texts
from viewmill.kernels.wide_store import WideStore

_FIRST_ENTRIES, _SOME_ENTRIES, _MOST_ENTRIES = 1 << 11, 1 << 17, 1 << 32
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 12, 1 << 20  # words


class TextStore:
    """Strings by id. Who writes holds the lock; who reads needs none, for nothing moves."""

    def __init__(self) -> None:
        self._header = np.zeros(texts.HEADER_WORDS, np.int64)
        self._words = self._header.data
        self.handle = address_of(self._header)
        self._blocks: list[IntArray] = []  # kept alive: kernels read them by address
        self._intern, self._measure = kernel(texts.intern_texts), kernel(texts.measure_texts)
        self._copy, self._spread = kernel(texts.copy_texts), kernel(texts.spread_texts)
        self.lock = Lock()
        self._one = _One()
        self._nothing = np.zeros(1, np.int64)  # the text of what is no string
        self._table = np.zeros(_FIRST_ENTRIES, np.int64)
        # Memory that is not written to is none yet, so there is room for more ids than entries.
        self.places = np.empty(_most_ids(_SOME_ENTRIES), np.int64)
        self._old_places: list[IntArray] = []  # kept alive: a kernel may be reading them
        self._readers: WeakSet[Texts] = WeakSet()
        self._recent = np.full(4 * texts.RECENT_ENTRIES, -1, np.int64)
        self._set(texts.RECENT, address_of(self._recent))
        self._set(texts.TABLE, address_of(self._table))
        self._set(texts.SHIFT, _shift(_FIRST_ENTRIES))
        self._set(texts.PLACES, address_of(self.places))
        self._set(texts.LIMIT, _most_ids(_FIRST_ENTRIES))
        self._add_block(0)

    def _get(self, offset: int) -> int:
        return int(self._words[offset >> 3])

    def _set(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = value

    def __len__(self) -> int:
        return self._get(texts.COUNT)

    def reserve(self) -> int:
        """A new id, of no string."""
        with self.lock:
            if self._get(texts.COUNT) == self._get(texts.LIMIT):
                self._grow()
            id_ = self._get(texts.COUNT)
            self.places[id_] = address_of(self._nothing)
            self._set(texts.COUNT, id_ + 1)
            return id_

    def intern(self, value: str) -> int:
        """The id of a string, new if need be."""
        encoded = value.encode()
        one = self._one
        if len(encoded) > len(one.data):
            return int(self.encode(string_array([value], None))[0])
        with self.lock:
            one.data[: len(encoded)] = encoded
            one.ends[1] = len(encoded)
            while self._intern(self.handle, 0, 1, *one.given) == 0:
                self.make_room()
            return one.ids[0]

    def value(self, id_: int) -> str:
        """What an id stands for."""
        place = int(self.places[id_])
        length = int.from_bytes(string_at(place, 8), sys.byteorder)
        words = np.frombuffer(string_at(place + 8, (length + 7) & ~7), np.int64)
        return words.astype(">i8").tobytes()[:length].decode()

    def encode(self, strings: Any) -> Ids:
        """The ids of an Arrow array of strings; that of NULL is 0."""
        size = len(strings)
        ids = np.empty(size, np.int64)
        if not size:
            return ids
        mask, masked = None, 0
        if strings.null_count:
            mask = strings.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
            masked = address_of(mask)
        _, ends, data = strings.buffers()
        wide = strings.type == pa.large_string()
        start = ends.address + strings.offset * (8 if wide else 4)
        at, end = (0, 0) if data is None else (data.address, data.address + data.size)
        given = (size, start, int(wide), at, end, masked, 0)
        with self.lock:
            done = self._intern(self.handle, 0, *given, address_of(ids))
            while done < size:
                self.make_room()
                done = self._intern(self.handle, done, *given, address_of(ids))
        return ids

    def decode(self, ids: Ids, mask: npt.NDArray[np.uint8] | None) -> Any:
        """The strings of ids, NULL where the mask is set."""
        ids, size = np.ascontiguousarray(ids), len(ids)
        # All that is read stays alive here, whatever a writer puts in its place meanwhile.
        places, count = self.places, self._get(texts.COUNT)
        masked = 0 if mask is None else address_of(mask)
        given = (address_of(places), min(count, len(places)), size, masked, address_of(ids))
        total = self._measure(*given)
        if total >= 1 << 31:
            raise pa.ArrowCapacityError(f"{total} bytes of text are too many for one column")
        ends, data = np.empty(size + 1, np.int32), np.empty(total + 7, np.uint8)
        self._copy(*given, int(ends.ctypes.data), address_of(data))
        validity = None if mask is None else pa.py_buffer(np.packbits(mask == 0, bitorder="little"))
        buffers = [validity, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), size, buffers)

    def show_places(self, reader: Texts) -> None:
        """Tell a reader where the places are, now and whenever they move."""
        with self.lock:
            self._readers.add(reader)
            reader.take_places(self.places)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = (*self._blocks, self._table, self._recent, *self._old_places)
        return sum(each.nbytes for each in held) + 8 * len(self)

    def make_room(self) -> None:
        """Make room for the string at which a kernel stopped."""
        if self._get(texts.COUNT) == self._get(texts.LIMIT):
            self._grow()
        needed = self._get(texts.NEEDED)
        if self._get(texts.FREE) + needed > self._get(texts.END):
            self._add_block(needed)

    def _add_block(self, needed: int) -> None:
        """Room for `needed` bytes of text and more; each block is as large as all before it."""
        usual = min(max(_FIRST_BLOCK, sum(map(len, self._blocks))), _LARGEST_BLOCK)
        block = np.empty(max(usual, needed // 8), np.int64)
        self._blocks.append(block)
        self._set(texts.FREE, address_of(block))
        self._set(texts.END, address_of(block) + block.nbytes)

    def _grow(self) -> None:
        """More entries; readers go on with the old ones."""
        entries = len(self._table) * (4 if len(self._table) < _SOME_ENTRIES else 2)
        if entries > _MOST_ENTRIES:
            raise OutOfMemory(f"a mill holds {len(self):,} different strings at most")
        table, limit = np.zeros(entries, np.int64), _most_ids(entries)
        self._spread(self.handle, address_of(table), _shift(entries))
        self._table = table
        if limit > len(self.places):
            self._move_places(limit)
        self._set(texts.LIMIT, limit)

    def _move_places(self, room: int) -> None:
        """Places for more ids. Whoever reads them by address is told at once: ids are made between
        the moment a kernel's arguments are there and its call, and some of them are arguments."""
        places = np.empty(room, np.int64)
        places[: len(self.places)] = self.places
        self._old_places.append(self.places)
        self.places = places
        self._set(texts.PLACES, address_of(places))
        for reader in self._readers:
            reader.take_places(places)


def _most_ids(entries: int) -> int:
    """The capacity of a hash table of this size: a quarter stays free to end a search."""
    return entries // 4 * 3


def _shift(entries: int) -> int:
    """The shift that maps a 64-bit hash to an index among 2^k entries."""
    return 65 - entries.bit_length()


class _One:
    """A buffer for a single string while it is looked up."""

    def __init__(self) -> None:
        self._arrays = np.zeros(64, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
        text, ends, ids = self._arrays
        self.data, self.ends, self.ids = text.data.cast("B"), ends.data, ids.data
        at = address_of(text)
        self.given = (address_of(ends), 1, at, at + text.nbytes, 0, 0, address_of(ids))


class Texts:
    """Dictionary ids of string literals, and a table by id for each function of strings.

    Before them stands where the numbers of wide decimals are.
    """

    def __init__(self, ids: Sequence[int], lookups: int = 0, wides: Wides | None = None) -> None:
        self._wides = wides  # kept alive: kernels read it by address
        self._tables = [np.zeros(64, np.int64) for _ in range(lookups)]
        self._is_known = [np.zeros(64, np.bool_) for _ in range(lookups)]
        self._strings: TextStore | None = None  # kept alive: kernels read it by address
        self._every = -1  # the table of the places of all strings
        self._addresses = np.array([*map(address_of, self._tables), 0], np.int64)
        wide = wides.handle if isinstance(wides, WideStore) else 0
        self._array = np.array([wide, address_of(self._addresses), *ids], np.int64)
        self.handle = address_of(self._array) + 8

    @property
    def learns_at_once(self) -> bool:
        """Once asked for, the places of all strings are known, of those that come later too."""
        return True

    def known(self, i: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which ids function i was computed for."""
        known = self._is_known[i]
        inside = ids < len(known)
        found: npt.NDArray[np.bool_] = inside & known[np.where(inside, ids, 0)]
        return found

    def learn(self, i: int, ids: IntArray, words: IntArray) -> None:
        """What function i gives for these ids."""
        top = int(ids.max()) + 1
        if top > len(self._tables[i]):
            more = 2 * top - len(self._tables[i])
            self._tables[i] = np.pad(self._tables[i], (0, more))
            self._is_known[i] = np.pad(self._is_known[i], (0, more))
            self._addresses[i] = address_of(self._tables[i])
        self._tables[i][ids] = words
        self._is_known[i][ids] = True

    def learn_texts(self, i: int, ids: IntArray, dictionary: Dictionary) -> None:
        """The places of all strings, for `text_less`: those of the dictionary itself."""
        if self._strings is None:
            strings = dictionary.strings
            assert isinstance(strings, TextStore)
            self._strings, self._every = strings, i
            strings.show_places(self)

    def take_places(self, places: IntArray) -> None:
        """The places of all strings are there from now on."""
        self._addresses[self._every] = address_of(places)

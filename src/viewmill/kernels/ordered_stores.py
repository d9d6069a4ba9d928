"""Where compiled `Ordered` states live: a header here, the nodes where kernels put them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import Float
from viewmill.errors import Outgrown
from viewmill.kernels.library import kernel
from viewmill.kernels.payloads import Payload
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import float_words, ordered_kernels, ordered_nodes
from viewmill.program.states import Ordered, Slot


class OrderedStore:
    """A compiled `Ordered` state."""

    def __init__(self, kind: Ordered) -> None:
        self.kind = kind
        words = kind.payload_words
        self._kinds = np.array([k for s in kind.payload for k in _KINDS.get(s.kind, [0])], np.int64)
        self._header = np.zeros(ordered_nodes.HEADER_WORDS, np.int64)
        self._sums = np.zeros((5, max(words, 1)), np.int64)
        self.handle = address_of(self._header)
        self._set(ordered_nodes.KEYS, kind.level_words)
        self._set(ordered_nodes.WORDS, words)
        self._set(ordered_nodes.FIRST_RESULT, kind.results)
        self._set(ordered_nodes.NULL_WORD, _null_word(kind))
        self._set(ordered_nodes.SIGNED, -1 if kind.watched is None else kind.watched)
        self._set(ordered_nodes.COUNTED, -1 if kind.counted is None else kind.counted)
        self._set(ordered_nodes.KINDS, address_of(self._kinds))
        self._set(ordered_nodes.FLOATS, int(self._kinds.any()))
        places = ("TOTALS", "NULLS", "PICKED", "STRAIN", "NOTED")
        for place, row in zip(places, self._sums, strict=True):
            self._set(getattr(ordered_nodes, place), address_of(row))
        self._clear, self._repeat = (
            kernel(ordered_kernels.ordered_clear),
            kernel(ordered_kernels.ordered_repeat),
        )
        self._commit = kernel(ordered_kernels.ordered_commit)
        self._shown = False
        # The header and the sums outlive the kernel's memory: what frees it reads them.
        weakref.finalize(self, _free, self._clear, self._header, (self._sums, self._kinds))

    def _get(self, offset: int) -> int:
        return int(self._header[offset >> 3])

    def _set(self, offset: int, value: int) -> None:
        self._header[offset >> 3] = value

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._get(ordered_nodes.BYTES) + self._header.nbytes + self._sums.nbytes

    def make_room(self) -> bool:
        """Nothing to do: kernels allocate as they go."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self._clear(self.handle)

    def commit(self) -> None:
        """Keep what was done."""
        self._commit(self.handle)

    def rollback(self) -> None:
        """Take back what was done since the commit."""
        self._repeat(self.handle, -1)
        self._commit(self.handle)

    def show_committed(self, on: bool) -> None:
        """What was done since the commit is taken back for as long as this is on."""
        if on != self._shown and self._get(ordered_nodes.LOG_SIZE):
            self._repeat(self.handle, -1 if on else 1)
        self._shown = on

    def load_payload(self, keys: IntArray, payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        inside, is_null = to_levels(self.kind, keys)
        for words in to_words(self.kind.payload, payload):
            if is_null.any():
                for row in np.ascontiguousarray(words[is_null]):
                    kernel(ordered_kernels.ordered_load_null)(self.handle, address_of(row))
            rows = np.ascontiguousarray(np.concatenate([inside, words], axis=1)[~is_null])
            kernel(ordered_kernels.ordered_load)(self.handle, address_of(rows), len(rows))

    def export_payload(self) -> tuple[IntArray, Payload]:
        """Keys, and an array for each slot, as committed."""
        self.show_committed(True)
        try:
            width = self.kind.level_words
            count = self._get(ordered_nodes.LEVELS)
            rows = np.empty((count, width + self.kind.payload_words), np.int64)
            kernel(ordered_kernels.ordered_export)(self.handle, address_of(rows))
            keys = from_levels(self.kind, rows[:, :width])
            words = rows[:, width:]
            if not self.kind.first and self.kind.level.nullable and self._sums[1].any():
                null_key = np.zeros((1, self.kind.key_words), np.int64)
                null_key[0, -1] = 1
                keys = np.concatenate([keys, null_key])
                words = np.concatenate([words, self._sums[1:2, : words.shape[1]]])
            return keys, from_words(self.kind.payload, words)
        finally:
            self.show_committed(False)


# What the words of a slot are, see `float_words`.
_KINDS = {"sum": [float_words.HIGH, float_words.LOW, float_words.LARGEST]}


def _null_word(kind: Ordered) -> int:
    """Which word of a key says in its lowest bit whether the level is NULL; -1 if none does."""
    if not kind.has_bits:
        return -1
    return 0 if kind.is_narrow else len(kind.first)


def _free(clear: Callable[..., int], header: IntArray, read: tuple[IntArray, ...]) -> None:
    assert read
    clear(address_of(header))


def to_levels(kind: Ordered, keys: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Keys as the state orders them, and which of them is the level of NULL apart."""
    width = len(kind.key)
    keys = _in_order(kind, keys)
    none = np.zeros(len(keys), np.bool_)
    if not kind.first:
        return keys[:, :width], keys[:, -1] != 0 if keys.shape[1] > width else none
    if not kind.has_bits:
        return keys, none
    group, bits = keys[:, : width - 1], keys[:, -1]
    # The level's bit comes last in definitions and first here: runs of a group lie side by side.
    own = ((bits & ((1 << (width - 1)) - 1)) << 1) | (bits >> (width - 1))
    if kind.is_narrow:
        return np.stack([(group[:, 0] << 2) | own, keys[:, width - 1]], axis=1), none
    return np.concatenate([group, own[:, None], keys[:, width - 1 : width]], axis=1), none


def _in_order(kind: Ordered, keys: IntArray) -> IntArray:
    """Keys with the words of floats as levels such that they compare as these do; and back."""
    if not isinstance(kind.level.type, Float):
        return keys
    at, made = len(kind.key) - 1, keys.copy()
    made[:, at] ^= (made[:, at] >> 63) & 0x7FFFFFFFFFFFFFFF
    return made


def from_levels(kind: Ordered, levels: IntArray) -> IntArray:
    """The inverse."""
    width = len(kind.key)
    keys = np.zeros((len(levels), kind.key_words), np.int64)
    if not kind.has_bits:
        keys[:, :width] = levels
        return _in_order(kind, keys)
    keys[:, width - 1] = levels[:, -1]
    own = levels[:, 0] & 3 if kind.is_narrow else levels[:, width - 1]
    keys[:, : width - 1] = levels[:, :1] >> 2 if kind.is_narrow else levels[:, : width - 1]
    keys[:, -1] = (own >> 1) | ((own & 1) << (width - 1))
    return _in_order(kind, keys)


def to_words(slots: Sequence[Slot], payload: Payload) -> Iterator[IntArray]:
    """What to add to the levels, one after the other: a sum of floats comes in parts.

    A slot has one word, a float three; what is wider is an error.
    """
    count = sum(slot.words if slot.kind == "sum" else 1 for slot in slots)
    passes = max(
        (v.shape[1] for s, v in zip(slots, payload, strict=True) if s.kind == "sum"), default=1
    )
    words = np.zeros((passes, len(payload[0]) if payload else 0, count), np.int64)
    j = 0
    for slot, values in zip(slots, payload, strict=True):
        if slot.kind == "sum":
            words[: values.shape[1], :, j] = np.ascontiguousarray(values.T).view(np.int64)
            j += 3
            continue
        if slot.kind == "wide":
            words[0, :, j] = values[:, 0]
            if (values[:, 1] != words[0, :, j] >> 63).any():
                raise Outgrown(f"a sum ({slot.name}) in an ordered state is wider than 64 bits")
        else:
            words[0, :, j] = values
        j += 1
    yield from words


def from_words(slots: Sequence[Slot], words: IntArray) -> Payload:
    """The payload of levels: of a sum of floats both parts."""
    payload, j = Payload(), 0
    for slot in slots:
        column = np.ascontiguousarray(words[:, j])
        if slot.kind == "sum":
            low = np.ascontiguousarray(words[:, j + 1])
            payload.append(np.stack([column.view(np.float64), low.view(np.float64)], axis=1))
            j += 3
            continue
        wide = np.stack([column, column >> 63], axis=1) if slot.kind == "wide" else column
        payload.append(wide)
        j += 1
    return payload

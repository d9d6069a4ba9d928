"""The dictionary of a mill: every string that is kept has one id, and equal strings equal ids.

Ids are local to a process; files and Arrow tables hold the strings themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]

_FEW = 256  # below this many ids a Python list is quicker than an Arrow take


class Dictionary:
    """Strings to ids and back; nested values (arrays, structs) go by their printed form."""

    def __init__(self) -> None:
        self._ids: dict[object, int] = {}
        self._values: list[Any] = []
        self._arrow = pa.nulls(0, pa.string())  # the first len(_arrow) values
        self._by_letter = np.full(128, -1, np.int64)

    def __len__(self) -> int:
        return len(self._values)

    def intern(self, value: str) -> int:
        """The id of a string, new if need be."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
        return found

    def value(self, id_: int) -> Any:
        """What an id stands for."""
        return self._values[id_]

    def encode(self, strings: pa.Array) -> Ids:
        """The ids of an Arrow array of strings; NULL becomes 0 and must be masked by the caller."""
        letters = _letters(strings)
        if letters is not None:
            return self._encode_letters(letters)
        coded = strings if pa.types.is_dictionary(strings.type) else strings.dictionary_encode()
        intern = self.intern
        known = [-1 if each is None else intern(each) for each in coded.dictionary.to_pylist()]
        ids = np.array(known or [0], np.int64)
        codes = coded.indices.fill_null(0) if coded.null_count else coded.indices
        found: Ids = ids.take(codes.to_numpy(zero_copy_only=False))
        return found

    def _encode_letters(self, letters: npt.NDArray[np.uint8]) -> Ids:
        """The ids of strings of one letter: flags are so short that a table knows them all."""
        found: Ids = self._by_letter.take(letters)
        if len(found) and found.min() < 0:
            for each in np.unique(letters[found < 0]).tolist():
                self._by_letter[each] = self.intern(chr(each))
            found = self._by_letter.take(letters)
        return found

    def decode(self, ids: Ids, mask: npt.NDArray[np.uint8] | None = None) -> pa.Array:
        """The strings of ids, NULL where the mask is set."""
        if len(ids) <= _FEW:
            values = self._values
            return string_array([values[i] if i < len(values) else "" for i in ids.tolist()], mask)
        self._extend_arrow()
        validity = None if mask is None else np.packbits(mask == 0, bitorder="little")
        buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ids)]
        return self._arrow.take(pa.Array.from_buffers(pa.int64(), len(ids), buffers))

    def _extend_arrow(self) -> None:
        done = len(self._arrow)
        if done < len(self._values):
            new = [each if isinstance(each, str) else "" for each in self._values[done:]]
            self._arrow = pa.concat_arrays([self._arrow, string_array(new, None)])

    def encode_nested(self, values: Sequence[Any]) -> Ids:
        """The ids of nested values: equal when they print alike."""
        ids = np.zeros(len(values), np.int64)
        for i, value in enumerate(values):
            if value is None:
                continue
            name = ("nested", repr(value))  # a tuple, so that no string can be mistaken for it
            found = self._ids.get(name)
            if found is None:
                found = self._ids[name] = len(self._values)
                self._values.append(value)
            ids[i] = found
        return ids

    def decode_nested(self, ids: Ids, mask: npt.NDArray[np.uint8] | None, type_: Any) -> pa.Array:
        """The nested values of ids as an Arrow array of `type_`."""
        nulls = [0] * len(ids) if mask is None else mask.tolist()
        pairs = zip(ids.tolist(), nulls, strict=True)
        return pa.array([None if null else self._values[i] for i, null in pairs], type_)


def _letters(strings: pa.Array) -> npt.NDArray[np.uint8] | None:
    """The letters of an array in which every string is one, None of another."""
    size = len(strings)
    if strings.type != pa.string() or not size or strings.null_count:
        return None
    _, offsets, letters = strings.buffers()
    ends = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + size + 1]
    if ends[-1] - ends[0] != size or letters is None:
        return None
    found = np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]]
    is_plain = (ends[1:] - ends[:-1] == 1).all() and found.max() < 128
    return found if is_plain else None


def string_array(values: Sequence[str], mask: npt.NDArray[np.uint8] | None) -> pa.Array:
    """An Arrow array of strings; `pa.array` would import pandas to look at its argument."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    validity = None if mask is None else pa.py_buffer(np.packbits(mask == 0, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers).cast(pa.string())

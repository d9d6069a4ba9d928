"""A few rows as bytes, for the log: what Arrow's own format costs a row or a thousand is too much.

takes  a Delta whose columns are words
gives  bytes that say all of it, and the Delta back in any other process

bytes    rows, checksum of the types, whether there are multiplicities, then a byte for each column:
         whether it has a mask; multiplicities; the columns
column   the mask, a byte for each row; then its words, or for strings where each ends and all their
         text, or for wide numbers their lower words and then their upper ones
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Type,
    Wide,
)
from viewmill.deltas.delta import Delta, Mask, Words, word_dtype
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import DamagedFile

_START = struct.Struct("<II?")  # rows, checksum of the types, whether there are multiplicities
_MAX_ROWS = 4096  # more are worth what Arrow's format costs
_FEW_STRINGS = 8
_WORD_TYPES = (Boolean, Integer, Float, Decimal, Date, Timestamp)


class RowBytes:
    """Reads and writes rows of one table."""

    def __init__(self, schema: Schema, dictionary: Dictionary) -> None:
        self._schema, self._dictionary = schema, dictionary
        self._types = zlib.crc32(", ".join(str(field.type) for field in schema).encode())
        self._is_fit = all(_is_fit(field.type) for field in schema)
        # The columns that are not their own words.
        self._strings = [i for i, f in enumerate(schema) if isinstance(f.type, String)]
        self._wides = [i for i, f in enumerate(schema) if isinstance(f.type, Wide)]

    def pack(self, delta: Delta) -> bytes | None:
        """The rows as bytes; None if there are many, or some that are better left to Arrow."""
        if not self._is_fit or delta.size > _MAX_ROWS or delta.lazy is not None:
            return None
        masks, times = delta.nulls, delta.multiplicity
        flags = bytearray(len(masks))
        columns: list[bytes] = [each.tobytes() for each in delta.columns]
        for i in self._strings:
            columns[i] = self._pack_strings(delta.columns[i], masks[i])
        for i in self._wides:
            low, high = self._dictionary.wide.decode(delta.columns[i])
            columns[i] = low.tobytes() + high.tobytes()
        for i, mask in enumerate(masks):
            if mask is not None:
                flags[i] = 1
                columns[i] = mask.tobytes() + columns[i]
        start = _START.pack(delta.size, self._types, times is not None)
        signs = b"" if times is None else times.tobytes()
        return b"".join((start, flags, signs, *columns))

    def _pack_strings(self, ids: Words, mask: Mask | None) -> bytes:
        if len(ids) <= _FEW_STRINGS and mask is None:
            texts = [self._dictionary.value(i).encode() for i in ids.tolist()]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
            return ends.tobytes() + b"".join(texts)
        _, ends, text = self._dictionary.decode(ids, mask).buffers()
        size = int(np.frombuffer(ends, np.int32)[len(ids)])
        whole = memoryview(ends)[: 4 * (len(ids) + 1)], memoryview(text)[:size]
        return b"".join(whole)

    def unpack(self, data: bytes) -> Delta:
        """The rows again."""
        rows, types, has_times = _START.unpack_from(data)
        if types != self._types:
            raise DamagedFile("rows in the log have other types than their table")
        reader = _Reader(data, _START.size)
        flags = reader.take(len(self._schema))
        times = reader.array(rows, np.int64) if has_times else None
        columns: list[Words] = []
        masks: list[Mask | None] = []
        for field, has_mask in zip(self._schema, flags, strict=True):
            masks.append(reader.array(rows, np.uint8) if has_mask else None)
            columns.append(self._unpack_column(reader, rows, field.type, masks[-1]))
        return Delta(self._schema, tuple(columns), tuple(masks), times, rows)

    def _unpack_column(self, reader: _Reader, rows: int, type_: Type, mask: Mask | None) -> Words:
        if isinstance(type_, String):
            return self._unpack_strings(reader, rows, mask)
        if isinstance(type_, Wide):
            low = reader.array(rows, np.int64)
            words: Words = self._dictionary.wide.encode(low, reader.array(rows, np.int64))
            return words
        plain: Words = reader.array(rows, word_dtype(type_))
        return plain

    def _unpack_strings(self, reader: _Reader, rows: int, mask: Mask | None) -> Words:
        ends = reader.array(rows + 1, np.int32)
        text = reader.take(int(ends[-1]))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
        ids = self._dictionary.encode(pa.Array.from_buffers(pa.string(), rows, buffers))
        if mask is not None:
            ids[mask != 0] = 0
        return ids


class _Reader:
    """Bytes from the front to the back."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def array(self, size: int, dtype: Any) -> Any:
        """Read the next `size` values into a new array."""
        wanted = np.dtype(dtype)
        return np.frombuffer(self.take(size * wanted.itemsize), wanted).copy()


def _is_fit(type_: Type) -> bool:
    return isinstance(type_, (*_WORD_TYPES, String, Wide))

"""The rows of a keyed state between words and Arrow, for definitions and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import is_float_word
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta, Mask, Words, float_keys
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import Overflow
from viewmill.program.states import Slot, StateKind

# One array per slot: int64 for int, (n, 2) int64 limbs, low one first, for wide, (n, size) float64
# for floats. For sum (n, any) float64 that are added up exactly: a definition gives one of them, a
# snapshot as many as it takes.
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Payload = list[Values]

_WIDE = pa.decimal128(38, 0)
_ROWS = 65536


def from_batches(
    kind: StateKind, batches: Iterable[pa.RecordBatch], dictionary: Dictionary
) -> tuple[npt.NDArray[np.int64], Payload]:
    """Keys and payload from the columns of `kind.schema`, in order."""
    keys, payloads = [], []
    for batch in batches:
        if batch.num_rows:
            keys.append(_key_words(kind, batch, dictionary))
            columns = batch.columns[len(kind.key) :]
            payloads.append(
                [_slot_values(*each) for each in zip(kind.payload, columns, strict=True)]
            )
    if not keys:
        keys.append(np.empty((0, kind.key_words), np.int64))
        payloads.append([_no_values(slot) for slot in kind.payload])
    return np.concatenate(keys), [_stacked(each) for each in zip(*payloads, strict=True)]


def _stacked(pieces: Sequence[Values]) -> Values:
    """Arrays one after the other, as wide as the widest."""
    widest = max(each.shape[-1] for each in pieces)
    if pieces[0].ndim == 1 or all(each.shape[-1] == widest for each in pieces):
        together: Values = np.concatenate(pieces)  # type: ignore[assignment]
        return together
    stacked = np.zeros((sum(map(len, pieces)), widest))
    at = 0
    for each in pieces:
        stacked[at : at + len(each), : each.shape[-1]] = each
        at += len(each)
    return stacked


def to_batches(
    kind: StateKind, keys: npt.NDArray[np.int64], payload: Payload, dictionary: Dictionary
) -> Iterator[pa.RecordBatch]:
    """The inverse: record batches with the columns of `kind.schema`."""
    delta = key_delta(kind, keys)
    arrays = list(decode_delta(delta, dictionary).columns) if kind.key else []
    arrays += [
        _slot_array(slot, values) for slot, values in zip(kind.payload, payload, strict=True)
    ]
    yield from pa.Table.from_arrays(arrays, names=list(kind.schema.names)).to_batches(_ROWS)


def _key_words(
    kind: StateKind, batch: pa.RecordBatch, dictionary: Dictionary
) -> npt.NDArray[np.int64]:
    blocks, at = [np.zeros((batch.num_rows, 0), np.int64)], 0
    for part in kind.parts:
        columns = batch.select(range(at, at + len(part)))
        blocks.append(_part_words(part, columns, dictionary))
        at += len(part)
    return np.concatenate(blocks, axis=1)


def _part_words(
    part: tuple[Field, ...], batch: pa.RecordBatch, dictionary: Dictionary
) -> npt.NDArray[np.int64]:
    has_nulls = any(field.nullable for field in part)
    words = np.zeros((batch.num_rows, len(part) + has_nulls), np.int64)
    if not part:
        return words
    delta = encode_columns(Schema(part), batch, dictionary)
    for i, (column, mask) in enumerate(zip(delta.columns, delta.nulls, strict=True)):
        words[:, i] = _as_key(column)
        if mask is not None:
            words[:, -1] |= mask.astype(np.int64) << i
            words[mask.view(np.bool_), i] = 0
    return words


def _as_key(column: Words) -> npt.NDArray[np.int64]:
    if column.dtype == np.float64:
        return float_keys(column.view(np.float64))
    return column.view(np.int64)


def key_delta(kind: StateKind, keys: npt.NDArray[np.int64]) -> Delta:
    """The keys of a state as rows."""
    columns: list[Words] = []
    nulls: list[Mask | None] = []
    at = 0
    for part in kind.parts:
        bits = at + len(part)  # the word of null bits, where the part has one
        for i, field in enumerate(part):
            column = np.ascontiguousarray(keys[:, at + i])
            columns.append(column.view(np.float64) if is_float_word(field.type) else column)
            nulls.append(((keys[:, bits] >> i) & 1).astype(np.uint8) if field.nullable else None)
        at = bits + any(field.nullable for field in part)
    return Delta(Schema(kind.key), tuple(columns), tuple(nulls), None, len(keys))


def _slot_values(slot: Slot, array: pa.Array) -> Values:
    if slot.kind == "floats":
        flat: npt.NDArray[np.float64] = array.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(array), slot.size)
    # SUM of no rows is NULL in SQL; the payload of no rows is zero.
    if slot.kind == "wide":
        # A sum of decimals counts in units of their last digit, as the words of their rows do.
        wide = array if pa.types.is_decimal128(array.type) else array.cast(_WIDE)
        return _limbs(wide.fill_null(0))
    if slot.kind == "int" and pa.types.is_decimal128(array.type):
        limbs = _limbs(array.fill_null(0))
        if not np.array_equal(limbs[:, 1], limbs[:, 0] >> 63):
            raise Overflow(f"{slot.name} does not fit 64 bits")
        return np.ascontiguousarray(limbs[:, 0])
    if slot.kind == "sum":
        return _sum_parts(array)
    values: npt.NDArray[np.int64] = (
        array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    )
    return values


def _sum_parts(array: pa.Array) -> npt.NDArray[np.float64]:
    """The floats that make up sums: of a definition one for each, of a snapshot a list."""
    parts: npt.NDArray[np.float64]
    if pa.types.is_floating(array.type):
        parts = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        return parts.reshape(-1, 1)
    parts = array.flatten().to_numpy(zero_copy_only=False)
    return parts.reshape(len(array), -1)


def _limbs(array: pa.Array) -> npt.NDArray[np.int64]:
    limbs = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return limbs[array.offset : array.offset + len(array)]


def _slot_array(slot: Slot, values: Values) -> pa.Array:
    if slot.kind in ("floats", "sum"):
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if slot.kind != "wide":
        return pa.array(values)
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(_WIDE, len(values), [None, buffer])


def _no_values(slot: Slot) -> Values:
    if slot.kind == "wide":
        return np.empty((0, 2), np.int64)
    if slot.kind == "floats":
        return np.empty((0, slot.size), np.float64)
    return np.empty((0, 1), np.float64) if slot.kind == "sum" else np.empty(0, np.int64)

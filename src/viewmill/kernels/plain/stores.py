"""The plain structures as a maintainer holds them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.packed import Packed
from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, Mask, Words, word_dtype
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.wide_codes import WideCodes, Wides
from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain import outlet
from viewmill.kernels.plain.keyed import PlainKeyed, Values, nearest_float
from viewmill.kernels.plain.outlet import Failed, Rows
from viewmill.program.states import Keyed, Slot


class KeyedStore:
    """A plain `Keyed` state."""

    def __init__(self, kind: Keyed) -> None:
        self.kind, self.handle = kind, PlainKeyed(kind)

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return sys.getsizeof(self.handle.entries) + 256 * len(self.handle.entries)

    def touched_key(self, t: int) -> tuple[int, ...]:
        """The words of touched key t."""
        return tuple(map(int, self.handle.journal[t][0]))

    def make_room(self) -> bool:
        """Nothing to do: Python containers grow by themselves."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self.handle.clear()

    def commit(self) -> None:
        """Keep what was done."""
        self.handle.commit()

    def rollback(self) -> None:
        """Go back to the last commit."""
        self.handle.rollback()

    def show_committed(self, on: bool) -> None:
        """Whether scans see entries as they were at the last commit."""
        self.handle.committed = on

    def load_payload(self, keys: npt.NDArray[np.int64], payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        columns = [
            [from_arrow(slot.kind, value) for value in values.tolist()]
            for slot, values in zip(self.kind.payload, payload, strict=True)
        ]
        for i, key in enumerate(map(tuple, keys.tolist())):
            values: Values = {
                self.kind.word(slot.name): column[i]
                for slot, column in zip(self.kind.payload, columns, strict=True)
            }
            if values != self.handle.zero():
                self.handle.numbers[key] = self.handle.new_entry(key, values)

    def export_payload(self) -> tuple[npt.NDArray[np.int64], Payload]:
        """Keys, and an array for each slot."""
        state = self.handle
        state.scan(committed=True)
        state.committed = False
        numbers = [each for each in state.positions if each != -1]
        keys = [state.entries[each][0] for each in numbers]
        payload = to_payload(self.kind.payload, [state.entries[each][1] for each in numbers])
        return np.array(keys, np.int64).reshape(len(numbers), self.kind.key_words), payload


def to_payload(slots: Sequence[Slot], entries: Sequence[Values]) -> Payload:
    """An array for each slot."""
    payload: Payload = []
    k = 0
    for slot in slots:
        values: list[Any] = [entry[k] for entry in entries]
        if slot.kind == "sum":
            payload.append(sums_in_parts(values))
        elif slot.kind == "wide":
            payload.append(np.array([to_limbs(x) for x in values], np.int64).reshape(-1, 2))
        elif slot.kind == "floats":
            floats = [[nearest_float(x) for x in each] for each in values]
            payload.append(np.array(floats, np.float64).reshape(-1, slot.size))
        else:
            payload.append(np.array(values, np.int64))
        k += slot.words
    return payload


def sums_in_parts(totals: Sequence[Fraction]) -> npt.NDArray[np.float64]:
    """For each exact sum a row of floats that add up to it."""
    parts = [float_parts(total) for total in totals]
    width = max(map(len, parts), default=1)
    padded = [each + [0.0] * (width - len(each)) for each in parts]
    return np.array(padded, np.float64).reshape(len(parts), width)


def float_parts(total: Fraction) -> list[float]:
    """Floats whose exact sum is a fraction, or what of it floats can tell."""
    parts: list[float] = []
    while total or not parts:
        nearest = nearest_float(total)
        if math.isinf(nearest):
            nearest = math.copysign(sys.float_info.max, nearest)
        parts.append(nearest)
        if nearest == 0.0:  # less than the smallest float
            break
        total -= Fraction(nearest)
    return parts


def from_arrow(kind: str, value: Any) -> int | Fraction | list[Fraction]:
    """The value of a slot."""
    if kind == "floats":
        return [Fraction(each) for each in value]
    if kind == "sum":
        return sum(map(Fraction, value), Fraction(0))
    if kind == "wide":
        low, high = value
        return int(high * 2**64 + low % 2**64)
    return int(value)


def to_limbs(value: object) -> tuple[int, int]:
    """The two words of a wide number, the low one first."""
    assert isinstance(value, int)
    low = value % 2**64
    return low - 2**64 if low >= 2**63 else low, value >> 64


class Outlet:
    """The rows triggers hand out."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self.handle = schema, Rows(len(schema))

    def take(self) -> Delta:
        """The rows so far; the outlet is empty again."""
        rows = self.handle.rows
        columns: list[Words] = []
        nulls: list[Mask | None] = []
        for c, field in enumerate(self._schema):
            values = [row[c] for row, _ in rows]
            packed = isinstance(field.type, Packed) and not field.type.is_single
            none: Any = [0.0] * field.type.width if packed else 0  # type: ignore[union-attr]
            filled = [none if value is None else value for value in values]
            mask = np.array([value is None for value in values], np.uint8)
            column: Any = np.array(filled, word_dtype(field.type))
            if packed:
                column = column.reshape(len(rows), field.type.width)  # type: ignore[union-attr]
            columns.append(column)
            nulls.append(mask if mask.any() else None)
        multiplicity = np.array([m for _, m in rows], np.int64)
        self.clear()
        return Delta(self._schema, tuple(columns), tuple(nulls), multiplicity, len(rows))

    def lend(self) -> Delta:
        """The rows so far; here they are in arrays of their own, like those of `take`."""
        return self.take()

    def clear(self) -> None:
        """Forget the rows so far."""
        self.handle.rows, self.handle.current = [], {}


class Failure:
    """The first failure a trigger noted."""

    def __init__(self) -> None:
        self.handle = Failed()
        self.words = self.handle.words

    def noted(self) -> bool:
        """Whether there is one."""
        return self.words[0] != 0

    @property
    def row(self) -> int:
        """The row of the failure."""
        return self.words[1]

    def take(self) -> tuple[int, int]:
        """Return the code and row of the failure, and reset it."""
        code, row = self.words[0] - 1, self.words[1]
        self.words[0] = 0
        return code, row


class Texts:
    """Dictionary ids of string literals, and what functions of strings give."""

    def __init__(self, ids: Sequence[int], lookups: int = 0, wides: Wides | None = None) -> None:
        self.handle = outlet.Texts(
            list(ids), [{} for _ in range(lookups)], wides if wides is not None else WideCodes()
        )

    def known(self, i: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which ids function i was computed for."""
        return np.array([each in self.handle.lookups[i] for each in ids.tolist()], np.bool_)

    def learn(self, i: int, ids: npt.NDArray[np.int64], words: npt.NDArray[np.int64]) -> None:
        """What function i gives for these ids."""
        self.handle.lookups[i].update(zip(ids.tolist(), words.tolist(), strict=True))

    @property
    def learns_at_once(self) -> bool:
        """Only the strings that it is told of are known."""
        return False

    def learn_texts(self, i: int, ids: npt.NDArray[np.int64], dictionary: Dictionary) -> None:
        """Strings, to be compared."""
        known = self.handle.lookups[i]
        new = {each for each in ids.tolist() if each not in known}
        known.update({each: dictionary.value(each) for each in new})

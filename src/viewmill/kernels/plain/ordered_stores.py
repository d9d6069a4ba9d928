"""Plain `Ordered` states as a maintainer holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.types import Float
from viewmill.errors import Outgrown
from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain.arithmetic import sort_word
from viewmill.kernels.plain.ordered import PlainOrdered
from viewmill.kernels.plain.stores import from_arrow, sums_in_parts, to_limbs
from viewmill.program.states import Ordered


class OrderedStore:
    """A plain `Ordered` state."""

    def __init__(self, kind: Ordered) -> None:
        self.kind, self.handle = kind, PlainOrdered(kind)
        self._shown = False

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return 256 * (1 + len(self.handle.levels))

    def make_room(self) -> bool:
        """Nothing to do: Python containers grow by themselves."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self.handle.clear()

    def commit(self) -> None:
        """Keep what was done."""
        self.handle.log = []

    def rollback(self) -> None:
        """Take back what was done since the commit."""
        self.handle.repeat(-1)
        self.handle.log = []

    def show_committed(self, on: bool) -> None:
        """What was done since the commit is taken back for as long as this is on."""
        if on != self._shown:
            self.handle.repeat(-1 if on else 1)
        self._shown = on

    def load_payload(self, keys: npt.NDArray[np.int64], payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        columns: list[list[Any]] = []
        for slot, values in zip(self.kind.payload, payload, strict=True):
            column = [from_arrow(slot.kind, value) for value in values.tolist()]
            columns += [
                column,
                *[[0] * len(column)] * (slot.words - 1 if slot.kind == "sum" else 0),
            ]
        for key, *words in zip(keys.tolist(), *columns, strict=True):
            if any(isinstance(x, int) and abs(x) >= 2**63 for x in words):
                raise Outgrown("a sum in an ordered state is wider than 64 bits")
            self.handle.add(self._inside(key), words)

    def _inside(self, key: list[int]) -> tuple[int, ...] | None:
        """A key as the state orders it, None for the level of NULL apart."""
        kind, width = self.kind, len(self.kind.key)
        null = (
            [bool(key[-1] >> i & 1) for i in range(width)] if len(key) > width else [False] * width
        )
        if not kind.first:
            return None if null[-1] else (self._level(key[0]),)
        if not kind.has_bits:
            return (*key[:-1], self._level(key[-1]))
        bits = sum(1 << i for i, is_null in enumerate([null[-1], *null[:-1]]) if is_null)
        *group, level = key[:width]
        level = self._level(level)
        return (group[0] * 4 + bits, level) if kind.is_narrow else (*group, bits, level)

    def _level(self, word: int) -> int:
        """The word of a level from that of a key, or the other way: floats are in their order."""
        return sort_word(word) if isinstance(self.kind.level.type, Float) else word

    def _outside(self, key: tuple[int, ...]) -> list[int]:
        """The inverse, for a key that is not NULL apart."""
        kind = self.kind
        *group, level = *key[:-1], self._level(key[-1])
        if not kind.has_bits:
            return [*group, level, *[0] * (kind.key_words - len(key))]
        if kind.is_narrow:
            group, bits = [group[0] // 4], group[0] % 4
        else:
            *group, bits = group
        return [*group, level, bits // 2 + (bits % 2 << len(group))]

    def export_payload(self) -> tuple[npt.NDArray[np.int64], Payload]:
        """Keys, and an array for each slot, as committed."""
        self.show_committed(True)
        rows = [(self._outside(key), words) for key, words in sorted(self.handle.levels.items())]
        if not self.kind.first and self.kind.level.nullable and any(self.handle.nulls):
            rows.append(([0, 1], self.handle.nulls))
        keys = np.array([key for key, _ in rows], np.int64).reshape(-1, self.kind.key_words)
        payload: Payload = []
        for slot in self.kind.payload:
            column: list[Any] = [words[self.kind.word(slot.name)] for _, words in rows]
            if slot.kind == "sum":
                payload.append(sums_in_parts(column))
            elif slot.kind == "wide":
                payload.append(np.array(list(map(to_limbs, column)), np.int64).reshape(-1, 2))
            else:
                payload.append(np.array(column, np.int64))
        self.show_committed(False)
        return keys, payload

"""Rows under the ids of another dictionary.

takes  deltas, and the dictionary of their ids
gives  equal rows with ids of a new dictionary, which holds no other strings than theirs
"""

from __future__ import annotations

import numpy as np

from viewmill.algebra.packed import Packed
from viewmill.algebra.types import Nested, String, Type, Wide
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta


class Translation:
    """From one dictionary to another. Two holders of one delta share its translation."""

    def __init__(self, old: Dictionary, new: Dictionary) -> None:
        self.old, self.new = old, new
        self._known: dict[int, tuple[Delta, Delta]] = {}  # holding the old ones keeps ids apart

    def __call__(self, delta: Delta) -> Delta:
        """The rows with the ids of the new dictionary; other columns are shared with `delta`."""
        found = self._known.get(id(delta))
        if found is None:
            found = self._known[id(delta)] = delta, self._translated(delta)
        return found[1]

    def _translated(self, delta: Delta) -> Delta:
        lazy = delta.lazy
        if lazy is not None and not lazy.made:  # it came as Arrow, and most of it is no words yet
            made = to_delta(lazy.table, delta.schema, self.new)
            return Delta(made.schema, made.columns, made.nulls, delta.multiplicity, delta.size)
        columns = tuple(
            self._words(delta.columns[i], delta.nulls[i], field.type)
            for i, field in enumerate(delta.schema)
        )
        return Delta(delta.schema, columns, tuple(delta.nulls), delta.multiplicity, delta.size)

    def _words(self, words: Words, mask: Mask | None, type_: Type) -> Words:
        old, new = self.old, self.new
        if isinstance(type_, Wide):
            return new.wide.encode(*old.wide.decode(words))
        if isinstance(type_, Packed) or not isinstance(type_, String | Nested):
            return words
        known = words if mask is None else words[mask == 0]
        different, places = np.unique(known, return_inverse=True)
        if isinstance(type_, String):
            ids = new.encode(old.decode(different)) if len(different) else different
        else:
            ids = new.encode_nested([old.value(each) for each in different.tolist()])
        if mask is None:
            return ids[places]
        made = np.zeros(len(words), np.int64)
        made[mask == 0] = ids[places]
        return made

"""Rows under the ids of another dictionary.

takes  a Delta, and the dictionary of its ids
gives  equal rows with ids of a new dictionary, which holds no other strings than theirs
"""

from __future__ import annotations

import numpy as np

from viewmill.algebra.types import Nested, String, Wide
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta


def translated(delta: Delta, old: Dictionary, new: Dictionary) -> Delta:
    """The rows with the ids of another dictionary; columns without ids are shared with `delta`."""
    lazy = delta.lazy
    if lazy is not None and not lazy.made:  # it came as Arrow, and most of it is no words yet
        made = to_delta(lazy.table, delta.schema, new)
        return Delta(made.schema, made.columns, made.nulls, delta.multiplicity, delta.size)
    columns = list(delta.columns)
    for i, field in enumerate(delta.schema):
        if isinstance(field.type, String):
            columns[i] = _strings(columns[i], delta.nulls[i], old, new)
        elif isinstance(field.type, Wide):
            columns[i] = new.wide.encode(*old.wide.decode(columns[i]))
        else:
            assert not isinstance(field.type, Nested), "no table holds nested values"
    return Delta(delta.schema, tuple(columns), tuple(delta.nulls), delta.multiplicity, delta.size)


def _strings(ids: Words, mask: Mask | None, old: Dictionary, new: Dictionary) -> Words:
    known = ids if mask is None else ids[mask == 0]
    different, places = np.unique(known, return_inverse=True)
    found = new.encode(old.decode(different))[places] if len(different) else known
    if mask is None:
        return found
    words = np.zeros(len(ids), np.int64)
    words[mask == 0] = found
    return words

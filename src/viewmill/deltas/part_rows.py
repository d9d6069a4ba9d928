"""Rows cut into time parts, with what a batch under way changes.

takes  deltas and the column that holds their time
gives  the rows of each part, consolidated where something was deleted
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat

_MERGE = 8  # so many small deltas of a part become one


def split_parts(delta: Delta, subscripts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Delta]]:
    """The delta of each part, ascending; rows keep their order inside a part."""
    if not delta.size:
        return
    low, high = int(subscripts.min()), int(subscripts.max())
    if low == high:
        yield low, delta
        return
    order = np.argsort(subscripts, kind="stable")
    ordered = subscripts[order]
    borders = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for rows in np.split(order, borders):
        yield int(subscripts[rows[0]]), delta.take(rows)


class PartRows:
    """The committed deltas of each part, and those of the batch under way."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: dict[int, list[Delta]] = {}
        self._staged: dict[int, list[Delta]] = {}
        self._whole: dict[int, Delta] = {}  # read since the part changed last

    def stage(self, subscript: int, delta: Delta) -> None:
        """Change a part."""
        self._staged.setdefault(subscript, []).append(delta)
        self._whole.pop(subscript, None)

    def commit(self) -> None:
        """Keep what was staged."""
        for subscript, deltas in self._staged.items():
            kept = self._parts.setdefault(subscript, [])
            kept += deltas
            if subscript in self._whole:  # a view read it in this batch
                self._parts[subscript] = [self._whole[subscript]]
            elif len(kept) >= _MERGE:
                self._parts[subscript] = [_netted(self._schema, kept)]
            if not any(each.size for each in self._parts[subscript]):
                del self._parts[subscript]
        self._staged.clear()

    def rollback(self) -> None:
        """Forget what was staged."""
        for subscript in self._staged:
            self._whole.pop(subscript, None)
        self._staged.clear()

    def drop(self, subscript: int) -> Delta:
        """Forget a committed part; gives what it held."""
        self._whole.pop(subscript, None)
        return _netted(self._schema, self._parts.pop(subscript, []))

    @property
    def staged(self) -> dict[int, list[Delta]]:
        """What the batch under way changes."""
        return self._staged

    def part(self, subscript: int) -> Delta:
        """The rows of a part with what is staged."""
        whole = self._whole.get(subscript)
        if whole is None:
            deltas = [*self._parts.get(subscript, ()), *self._staged.get(subscript, ())]
            whole = _netted(self._schema, deltas)
            if deltas:
                self._whole[subscript] = whole
                if subscript not in self._staged:
                    self._parts[subscript] = [whole]
        return whole

    def subscripts(self) -> list[int]:
        """The parts that have rows, ascending."""
        return sorted({*self._parts, *self._staged})

    def __contains__(self, subscript: int) -> bool:
        return subscript in self._parts or subscript in self._staged

    def contents(self) -> Delta:
        """All rows, part by part."""
        deltas = [self.part(each) for each in self.subscripts()]
        return concat(self._schema, deltas) if deltas else Delta.empty(self._schema)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        deltas = [each for kept in self._parts.values() for each in kept]
        return sum(delta.nbytes for delta in deltas)


def _netted(schema: Schema, deltas: list[Delta]) -> Delta:
    if not deltas:
        return Delta.empty(schema)
    whole = concat(schema, deltas)
    signs = whole.multiplicity
    return consolidate(whole) if signs is not None and bool((signs < 0).any()) else whole

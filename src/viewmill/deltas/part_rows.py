"""Rows cut into time parts, with what a batch under way changes.

takes  deltas and the column that holds their time
gives  the rows of each part, consolidated where something was deleted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rolled_parts import RolledParts

_MERGE = 8  # small deltas of a part that are merged into one


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
        self.rolled = RolledParts(schema)

    def translated(self, translate: Callable[[Delta], Delta]) -> PartRows:
        """The committed rows with other ids of strings."""
        made = PartRows(self._schema)
        made._parts = {p: list(map(translate, deltas)) for p, deltas in self._parts.items()}
        made._whole = {p: translate(rows) for p, rows in self._whole.items()}
        made.rolled = self.rolled.translated(translate)
        return made

    def stage(self, subscript: int, delta: Delta) -> None:
        """Change a part."""
        self._staged.setdefault(subscript, []).append(delta)
        self._whole.pop(subscript, None)

    def commit(self) -> None:
        """Keep what was staged."""
        for subscript, deltas in self._staged.items():
            for part, rows in self.rolled.take_apart(subscript).items():
                self._parts[part] = [rows]
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

    def before(self, limit: int) -> list[tuple[int, int, Delta]]:
        """Committed parts that end by `limit`, rolled up or single: first, how many, rows."""
        single = [(p, 1, self.part(p)) for p in sorted(self._parts) if p < limit]
        return [*self.rolled.before(limit), *single]

    def drop(self, first: int, count: int) -> None:
        """Forget committed parts, as `before` gives them."""
        if count > 1:
            self.rolled.drop(first)
        else:
            self._whole.pop(first, None)
            self._parts.pop(first, None)

    def roll_up(self, width: int, before: int) -> None:
        """Put the parts of whole blocks of `width` parts that end by `before` into one piece."""
        due = [p for p in self._parts if (p // width + 1) * width <= before]
        if due:
            self.rolled.roll_up({p: self.part(p) for p in due}, width, before)
        for subscript in due:
            del self._parts[subscript]
            self._whole.pop(subscript, None)

    @property
    def staged(self) -> dict[int, list[Delta]]:
        """What the batch under way changes."""
        return self._staged

    def part(self, subscript: int) -> Delta:
        """The rows of a part with what is staged."""
        whole = self._whole.get(subscript)
        if whole is None:
            held = self.rolled.get(subscript)
            if held is not None and subscript not in self._staged:
                return held
            first = self._parts.get(subscript, () if held is None else (held,))
            deltas = [*first, *self._staged.get(subscript, ())]
            whole = _netted(self._schema, deltas)
            if deltas:
                self._whole[subscript] = whole
                if subscript not in self._staged:
                    self._parts[subscript] = [whole]
        return whole

    def subscripts(self) -> list[int]:
        """The parts that have rows, ascending."""
        return sorted({*self._parts, *self._staged, *self.rolled.subscripts()})

    def __contains__(self, subscript: int) -> bool:
        here = subscript in self._parts or subscript in self._staged
        return here or self.rolled.get(subscript) is not None

    def contents(self) -> Delta:
        """All rows, part by part."""
        deltas = [self.part(each) for each in self.subscripts()]
        return concat(self._schema, deltas) if deltas else Delta.empty(self._schema)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        deltas = [each for kept in self._parts.values() for each in kept]
        return sum(delta.nbytes for delta in deltas) + self.rolled.nbytes


def _netted(schema: Schema, deltas: list[Delta]) -> Delta:
    if not deltas:
        return Delta.empty(schema)
    whole = concat(schema, deltas)
    signs = whole.multiplicity
    return consolidate(whole) if signs is not None and bool((signs < 0).any()) else whole

"""Small parts rolled up into larger ones: neighbours lie in one piece, and each is a slice of it.

takes  parts by subscript, how many make a block, which are old enough
gives  the rows of a part as before; blocks to read, archive and drop as a whole
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, concat


@dataclass(frozen=True)
class Block:
    """Neighbouring parts in one piece."""

    subscripts: list[int]
    starts: list[int]  # of each part's rows, and the end of the last
    rows: Delta

    def part(self, subscript: int) -> Delta | None:
        """The rows of a part, not copied."""
        at = bisect_left(self.subscripts, subscript)
        if at == len(self.subscripts) or self.subscripts[at] != subscript:
            return None
        here = slice(self.starts[at], self.starts[at + 1])
        rows = self.rows
        nulls = tuple(None if mask is None else mask[here] for mask in rows.nulls)
        times = None if rows.multiplicity is None else rows.multiplicity[here]
        size = here.stop - here.start
        return Delta(rows.schema, tuple(c[here] for c in rows.columns), nulls, times, size)


class RolledParts:
    """The blocks of one table or view."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._width = 1
        self._blocks: dict[int, Block] = {}

    def translated(self, translate: Callable[[Delta], Delta]) -> RolledParts:
        """The same blocks with other ids of strings."""
        made = RolledParts(self._schema)
        made._width = self._width
        made._blocks = {
            number: replace(block, rows=translate(block.rows))
            for number, block in self._blocks.items()
        }
        return made

    def roll_up(self, parts: dict[int, Delta], width: int, before: int) -> None:
        """Take whole blocks of `width` parts that end by `before` out of the parts."""
        self._width = width
        due = {part // width for part in parts if (part // width + 1) * width <= before}
        for block in due:
            inside = {**self._opened(block), **_taken(parts, block, width)}
            subscripts = sorted(inside)
            starts = [0]
            for each in subscripts:
                starts.append(starts[-1] + inside[each].size)
            rows = concat(self._schema, [inside[each] for each in subscripts])
            self._blocks[block] = Block(subscripts, starts, rows)

    def _opened(self, block: int) -> dict[int, Delta]:
        held = self._blocks.pop(block, None)
        found = {} if held is None else {each: held.part(each) for each in held.subscripts}
        return {each: rows for each, rows in found.items() if rows is not None}

    def take_apart(self, subscript: int) -> dict[int, Delta]:
        """The parts of the block that a part lies in, which is no block any more."""
        return self._opened(subscript // self._width)

    def get(self, subscript: int) -> Delta | None:
        """The rows of a part, None if it is not rolled up."""
        block = self._blocks.get(subscript // self._width) if self._blocks else None
        return None if block is None else block.part(subscript)

    def block_of(self, subscript: int) -> tuple[int, int] | None:
        """The first part and the number of parts of the block that a part lies in."""
        block = subscript // self._width
        return (block * self._width, self._width) if block in self._blocks else None

    def before(self, limit: int) -> Iterator[tuple[int, int, Delta]]:
        """The blocks that end by `limit`: first part, number of parts, rows."""
        for block in sorted(self._blocks):
            if (block + 1) * self._width <= limit:
                yield block * self._width, self._width, self._blocks[block].rows

    def drop(self, first: int) -> None:
        """Forget the block that starts with a part."""
        del self._blocks[first // self._width]

    def subscripts(self) -> list[int]:
        """The parts of all blocks."""
        return [each for block in self._blocks.values() for each in block.subscripts]

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(each.rows.nbytes for each in self._blocks.values())


def _taken(parts: dict[int, Delta], block: int, width: int) -> dict[int, Delta]:
    return {p: parts.pop(p) for p in range(block * width, (block + 1) * width) if p in parts}

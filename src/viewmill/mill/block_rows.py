"""Run the definitions of states that read inner blocks of their view.

takes  the definition of a state, over tables and blocks of its view
gives  its rows: queries of blocks are inlined, or computed once if many definitions use them

A block below many others would otherwise be computed for each of their states. Its rows are
computed once and held, unless there are too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewmill.algebra.relations import Limit, Relation, Scan
from viewmill.algebra.walk import scans
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.planner.blocks import inline_blocks
from viewmill.program.states import Replay
from viewmill.rewrite.correlation import transform_everywhere
from viewmill.runtime.runtime import Block

_MIN_USES = 3  # a block that so many definitions would compute is computed once instead
_MAX_HELD_ROWS = 200_000  # larger results are not held in memory


class BlockRows:
    """The inner blocks of a view while it is being filled; `given` has rows for some of them."""

    def __init__(
        self,
        core: Core,
        entry: ViewEntry,
        blocks: Sequence[Block],
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._core, self._entry, self._given = core, entry, given or {}
        self._queries = {each.name: _renamed(each.program.query, each) for each in blocks}
        self._uses = _uses(blocks, self._queries)
        self._rows: dict[str, Any] = {}  # by block; None if they are too many

    def run(
        self, block: Block, definition: Relation, tables: Mapping[str, Any] | None = None
    ) -> Any:
        """The rows of a block's definition; `tables` replaces the present rows of some sources."""
        return self._run(_renamed(definition, block), tables)

    def _run(self, definition: Relation, tables: Mapping[str, Any] | None = None) -> Any:
        rest = dict(self._queries)
        given = {} if tables is None else dict(tables)
        for name in self._blocks_in(definition):
            # Held rows were computed over the present tables, so they do not fit other ones.
            rows = self._rows_of(name) if tables is None else self._given.get(name)
            if rows is not None:
                source = f"{name}#rows"
                rest[name] = Scan(source, "#rows", self._queries[name].schema)
                given[source.lower()] = rows
        return self._core.run(inline_blocks(definition, rest), view=self._entry, tables=given)

    def _blocks_in(self, relation: Relation) -> list[str]:
        """The blocks that a relation reads, directly or not."""
        read = [each.source for each in scans(relation) if each.source in self._queries]
        below = [name for each in read for name in self._blocks_in(self._queries[each])]
        return list(dict.fromkeys([*read, *below]))

    def _rows_of(self, name: str) -> Any:
        if self._uses.get(name, 0) < _MIN_USES:
            return None
        if name not in self._rows:
            query = self._queries[name]
            rows = self._run(Limit(query, _MAX_HELD_ROWS + 1))
            self._rows[name] = rows if rows.num_rows <= _MAX_HELD_ROWS else None
        return self._rows[name]


def _renamed(relation: Relation, block: Block) -> Relation:
    """A relation of a block's program, over the present names of the blocks that it reads."""

    def change(each: Relation) -> Relation:
        if isinstance(each, Scan) and each.source in block.renamed:
            return replace(each, source=block.renamed[each.source])
        return each

    return transform_everywhere(relation, change) if block.renamed else relation


def _uses(blocks: Sequence[Block], queries: Mapping[str, Relation]) -> dict[str, int]:
    """How often each block would be computed if it were always inlined."""
    found = dict.fromkeys(queries, 0)
    for block in blocks:
        for state in block.program.states:
            if not isinstance(state.definition, Replay) and not state.derived:
                _count(_renamed(state.definition, block), found, 1)
    for block in reversed(blocks):  # blocks come after those that they read
        _count(queries[block.name], found, found[block.name])
    return found


def _count(relation: Relation, found: dict[str, int], times: int) -> None:
    for scan in scans(relation):
        if scan.source in found:
            found[scan.source] += times

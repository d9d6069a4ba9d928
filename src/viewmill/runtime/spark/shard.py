"""One shard of the views: programs over the rows that were sent to it.

takes  the programs, deltas of streams
gives  the change of each view's part; its states as bytes, and back
next   pipeline.shards.slot_states, which keeps the bytes in Spark's state store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewmill.algebra.relations import Relation
from viewmill.deltas.blobs import read_tables, write_tables
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import EvaluationFailed, Overflow
from viewmill.kernels.build import build
from viewmill.program.states import Passing, Replay
from viewmill.runtime.in_process.runtime import InProcessRuntime
from viewmill.runtime.runtime import Block
from viewmill.runtime.spark.programs import ShardProgram


class Shard:
    """The programs of all views over one shard's rows."""

    def __init__(
        self,
        programs: Sequence[ShardProgram],
        *,
        dictionary: Dictionary | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.dictionary = Dictionary() if dictionary is None else dictionary
        self._views = {each.view for each in programs}
        self._blocks: list[Block] = []
        self._runtime = InProcessRuntime()
        for each in programs:
            made = [
                Block(
                    name, program, build(program, self.dictionary, compiled=compiled), {each.view}
                )
                for name, program in each.blocks
            ]
            if each.empty:
                _load(made, each.empty)
            self._blocks += made
            for block in made:
                self._runtime.add(block)

    def take(self, deltas: Mapping[str, Delta]) -> dict[str, Delta]:
        """Apply and commit one batch; gives the delta of each view. An error changes nothing."""
        try:
            return self._take(deltas)
        except (Overflow, EvaluationFailed):
            # Rows that cancel out within the batch must not make it fail.
            return self._take({name: consolidate(delta) for name, delta in deltas.items()})

    def _take(self, deltas: Mapping[str, Delta]) -> dict[str, Delta]:
        try:
            outputs = self._runtime.refresh(deltas, self._views)
        except BaseException:
            self._runtime.rollback()
            raise
        self._runtime.commit()
        return outputs

    def contents(self) -> dict[str, Delta]:
        """The rows of each view's part; a sum over no rows is one row."""
        views = [block for block in self._blocks if block.name in self._views]
        return {block.name: block.maintainer.contents() for block in views}

    @property
    def state_bytes(self) -> int:
        """The size of the states."""
        return sum(sum(block.maintainer.state_bytes().values()) for block in self._blocks)

    def snapshot(self) -> bytes:
        """All states as bytes, for `load`."""
        pieces = [
            pa.Table.from_batches(batches) if (batches := list(block.maintainer.snapshot(state)))
            else None
            for block, state in _states(self._blocks)
        ]  # fmt: skip
        return write_tables(pieces)

    def load(self, snapshot: bytes) -> None:
        """Restore the states of a snapshot."""
        _load(self._blocks, snapshot)

    def fill(self, rows: Callable[[Relation], Iterable[Any]]) -> None:
        """Load every state with the rows of its definition, or replay the inputs of the block."""
        for block in self._blocks:
            states = [each for each in block.program.states if not each.derived]
            for state in states:
                known = () if isinstance(state.definition, Replay) else rows(state.definition)
                block.maintainer.load(state.name, known)
            if any(isinstance(state.definition, Replay) for state in states):
                self._replay(block)
            block.maintainer.flush()
            block.maintainer.commit()

    def _replay(self, block: Block) -> None:
        """Feed a block the rows of the blocks below it.

        A block may have rows without any input: the maximum of no rows is one row with a NULL.
        """
        below = {each.name: each for each in self._blocks}
        for each in block.program.inputs:
            if each.source in below:
                block.maintainer.apply(each.name, below[each.source].maintainer.contents())


def _states(blocks: Sequence[Block]) -> list[tuple[Block, str]]:
    return [
        (block, state.name)
        for block in blocks
        for state in block.program.states
        if not state.derived and not isinstance(state.kind, Passing)
    ]


def _load(blocks: Sequence[Block], snapshot: bytes) -> None:
    tables = read_tables(snapshot)
    for (block, state), table in zip(_states(blocks), tables, strict=True):
        block.maintainer.load(state, [] if table is None else table.to_batches())
    for block in blocks:
        block.maintainer.commit()

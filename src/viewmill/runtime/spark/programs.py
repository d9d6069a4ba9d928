"""The programs that shards run for a view: plain data that can be sent to workers."""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.program.program import Program


@dataclass(frozen=True)
class ShardProgram:
    """The blocks that shards run for one view; the last one has the view's name."""

    view: str
    blocks: tuple[tuple[str, Program], ...]
    empty: bytes = b""  # the states over no rows: a sum without groups is a row even then

    @property
    def streams(self) -> frozenset[str]:
        """The streams that it reads."""
        own = {name for name, _ in self.blocks}
        return frozenset(i.source for _, each in self.blocks for i in each.inputs) - own

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Fingerprints of the programs; stored state is valid only for the same ones."""
        return tuple(each.fingerprint for _, each in self.blocks)

    @property
    def query(self) -> Relation:
        """The query that a shard computes."""
        return self.blocks[-1][1].query

    @property
    def output(self) -> Schema:
        """The output columns of a shard."""
        return self.blocks[-1][1].output

"""What shards run for a view. Data only, so that it can travel to workers."""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.program.program import Program


@dataclass(frozen=True)
class ShardProgram:
    """What shards run for one view: its blocks, the last of which has the view's name."""

    view: str
    blocks: tuple[tuple[str, Program], ...]
    empty: bytes = b""  # the states over no rows: a sum without groups is a row even then

    @property
    def streams(self) -> frozenset[str]:
        """What it takes."""
        own = {name for name, _ in self.blocks}
        return frozenset(i.source for _, each in self.blocks for i in each.inputs) - own

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """What must not change while the state lives."""
        return tuple(each.fingerprint for _, each in self.blocks)

    @property
    def query(self) -> Relation:
        """What a shard computes."""
        return self.blocks[-1][1].query

    @property
    def output(self) -> Schema:
        """The columns of what a shard gives."""
        return self.blocks[-1][1].output

"""The programs that shards run for a view: plain data that can be sent to workers."""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.relations import Relation
from viewmill.algebra.schema import Schema
from viewmill.program.program import Program


def state_key(view: str, fill: str) -> str:
    """A view that is defined anew takes no state of the view that had its name."""
    return f"{view}@{fill}" if fill else view


@dataclass(frozen=True)
class ShardProgram:
    """The blocks that shards run for one view; the last one has the view's name."""

    view: str
    blocks: tuple[tuple[str, Program], ...]
    empty: bytes = b""  # the states over no rows: a sum without groups is a row even then
    fill: str = ""  # which fill has the states to begin with, of a view that came later

    @property
    def key(self) -> str:
        """What its states are called in a slot."""
        return state_key(self.view, self.fill)

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

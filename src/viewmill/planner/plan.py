"""A plan: the chosen candidates of a view, the other offers, and the rejections with reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from viewmill.algebra.relations import Relation
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Program
from viewmill.strategies.strategy import Candidate, Cost, Rejection, Statistics


@dataclass(frozen=True)
class PlannedBlock:
    """A part of the query, maintained by one strategy. `query` reads tables, views and blocks."""

    name: str
    query: Relation
    chosen: Candidate
    offered: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    program: Program


@dataclass(frozen=True)
class Plan:
    """The blocks of a view in dependency order; the last one is the view itself.

    `offered` and `rejected` are the other answers for the whole query, or for the part of it that
    could not be cut.
    """

    view: str
    query: Relation
    blocks: tuple[PlannedBlock, ...]
    offered: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    reason: str
    # What it was made with: the same plan can be made again.
    known: Statistics | None = field(default=None, repr=False, compare=False)

    @property
    def chosen(self) -> Candidate:
        """The candidate of the last block, which produces the view's rows."""
        return self.blocks[-1].chosen

    @property
    def program(self) -> Program:
        """The program of the last block, which produces the view's rows."""
        return self.blocks[-1].program

    @property
    def strategy(self) -> str:
        """The strategies of all blocks, each once, joined by " + "."""
        return " + ".join(dict.fromkeys(block.chosen.strategy for block in self.blocks))

    @property
    def cost(self) -> Cost:
        """The cost of refreshing all blocks."""
        return total_cost([block.chosen for block in self.blocks])

    @cached_property
    def is_incremental(self) -> bool:
        """Whether the cost of a refresh depends on the change, not on the size of the data."""
        return all(not block.chosen.recomputes for block in self.blocks)

    @cached_property
    def asks_engine(self) -> bool:
        """Whether a refresh runs queries for changed parts on the engine."""
        bodies = [block.program.body for block in self.blocks]
        return any(
            isinstance(each, PartQueries)
            or (isinstance(each, PatternQueries) and each.needs_engine)
            for each in bodies
        )


def total_cost(candidates: list[Candidate]) -> Cost:
    """The cost of several candidates that run one after another."""
    costs = [each.cost for each in candidates]
    return Cost(
        sum(each.refresh_us for each in costs),
        sum(each.row_us for each in costs),
        sum(each.state_bytes for each in costs),
    )

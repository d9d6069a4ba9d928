"""A plan: what was chosen for a view, what else was offered, and who refused and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from viewmill.algebra.relations import Relation
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import Program
from viewmill.strategies.strategy import Candidate, Cost, Rejection


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
    """The blocks, each after those that it reads; the last one is the view.

    `offered` and `rejected` are the answers for the whole query, or for the part in the way.
    """

    view: str
    query: Relation
    blocks: tuple[PlannedBlock, ...]
    offered: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    reason: str

    @property
    def chosen(self) -> Candidate:
        """The candidate whose rows are the view's."""
        return self.blocks[-1].chosen

    @property
    def program(self) -> Program:
        """The program whose rows are the view's."""
        return self.blocks[-1].program

    @property
    def strategy(self) -> str:
        """The strategies of all blocks, each once, joined by " + "."""
        return " + ".join(dict.fromkeys(block.chosen.strategy for block in self.blocks))

    @property
    def cost(self) -> Cost:
        """What a refresh of all blocks costs."""
        return total_cost([block.chosen for block in self.blocks])

    @cached_property
    def is_incremental(self) -> bool:
        """Whether a refresh costs the change, not the data."""
        return all(block.chosen.strategy != "recompute" for block in self.blocks)

    @cached_property
    def asks_engine(self) -> bool:
        """Whether the engine computes the parts that a refresh changes."""
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

"""A plan: what was chosen for a view, what else was offered, and who refused and why."""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.program.program import Program
from viewmill.strategies.strategy import Candidate, Rejection


@dataclass(frozen=True)
class Plan:
    """The answer of every strategy, the choice, and the program that it compiles to."""

    view: str
    chosen: Candidate
    offered: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    reason: str
    program: Program

    @property
    def is_incremental(self) -> bool:
        """Whether a refresh costs the change, not the data."""
        return self.chosen.strategy != "recompute"

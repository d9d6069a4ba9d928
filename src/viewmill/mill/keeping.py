"""Which states of a view are there, and why: the record of a view in a budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from viewmill.planner.allot import Selector
from viewmill.planner.measured import Measured
from viewmill.planner.operators import StateSize
from viewmill.planner.select_states import Mode, Selection
from viewmill.policies.arrivals import Expectation
from viewmill.runtime.runtime import Block

Unit = tuple[str, str]  # block, and a state of it or ALL


@dataclass
class Keeping:
    """A view in a budget.

    In mode incremental its own blocks are in the runtime, some of their states may be away. In mode
    full one block is there that computes the view again and holds nothing but its rows.
    """

    own: list[Block]
    again: Block
    mode: Mode = "incremental"
    away: set[Unit] = field(default_factory=set)
    sizes: dict[Unit, StateSize] = field(default_factory=dict)
    guessed: dict[Unit, StateSize] | None = None  # of those that were never built
    used: dict[str, int] = field(default_factory=dict)  # how often a refresh needed a state
    selection: Selection | None = None
    selector: Selector | None = None  # the mill's, if none
    planned_for: dict[str, Expectation] = field(default_factory=dict)
    planned_rows: dict[str, int] = field(default_factory=dict)  # of each source at the selection
    is_touched: bool = True  # since the last selection
    rebuilt: int = 0  # states that the last refresh had to build
    measured: Measured = field(default_factory=Measured)

"""Which states of a view under a memory budget are in memory, and why."""

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
class BudgetedStates:
    """The states of one view under a memory budget.

    In mode "incremental" the runtime has the blocks of the view's plan (`own`), some of whose
    states may be released. In mode "full" it has the block `recompute` instead, which runs the
    view's query and holds nothing but its rows.
    """

    own: list[Block]
    recompute: Block
    mode: Mode = "incremental"
    released: set[Unit] = field(default_factory=set)
    sizes: dict[Unit, StateSize] = field(default_factory=dict)
    estimated: dict[Unit, StateSize] | None = None  # sizes of states that were never built
    used: dict[str, int] = field(default_factory=dict)  # how often a refresh needed a state
    selection: Selection | None = None
    selector: Selector | None = None  # None: the mill's
    planned_for: dict[str, Expectation] = field(default_factory=dict)
    planned_rows: dict[str, int] = field(
        default_factory=dict
    )  # rows of each source when states were selected
    is_touched: bool = True  # refreshed since the last selection
    rebuilt: int = 0  # states that the last refresh had to build
    measured: Measured = field(default_factory=Measured)

"""Estimate the refresh cost of a view for different memory budgets, before it is created.

takes  a query or CREATE statement (or an existing view), budgets, the expected arrivals
gives  for each budget the estimated time of the next refresh and the states that would be kept
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate as Call
from viewmill.algebra.relations import Aggregate, Values
from viewmill.algebra.types import BIGINT
from viewmill.errors import InvalidArgument, UnknownName, UnsupportedQuery, nearest
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.memory import costs_of
from viewmill.planner.allot import Claim, Selector, select
from viewmill.planner.blocks import inline_blocks
from viewmill.planner.operators import Operator, Situation, StateSize, entry_bytes, operators_of
from viewmill.planner.plan import Plan
from viewmill.planner.select_states import cost_of
from viewmill.policies.arrivals import COMPLETE, Expectation
from viewmill.program.program import Queries, Triggers
from viewmill.program.states import Replay, State
from viewmill.program.uses import units_of


@dataclass(frozen=True)
class Point:
    """One budget: the states that would be kept and the estimated cost of the next refresh."""

    budget: int
    selection: str
    refresh_us: float
    mode: str
    state_bytes: int
    kept: tuple[str, ...]


def memory_curve(
    core: Core,
    plan: Plan,
    budgets: Sequence[int],
    said: Mapping[str, float | str],
    rows: Mapping[str, float | str] | None = None,
    selectors: Sequence[Selector] = ("dynamic", "rebatch"),
) -> list[Point]:
    """The points of the curve, budget by budget."""
    root = view_operators(core, plan, said, rows or {})
    points = []
    for budget in budgets:
        for name in selectors:
            chosen = select(Claim(root, selector=name), budget)
            cost = cost_of(root, chosen.kept)
            mode = "full" if not chosen.kept else chosen.mode
            kept = tuple(sorted(chosen.kept))
            points.append(Point(budget, name, cost, mode, chosen.bytes, kept))
    return points


def view_operators(
    core: Core,
    plan: Plan,
    said: Mapping[str, float | str],
    assumed: Mapping[str, float | str] | None = None,
) -> Operator:
    """The operators of a plan over the present tables, with the sizes that its states would have.

    With `assumed` row counts the sizes are estimates: as if every row had a key of its own.
    """
    bodies = [block.program.body for block in plan.blocks]
    if any(isinstance(each, Triggers) and each.enumeration is not None for each in bodies):
        raise UnsupportedQuery(
            f'view "{plan.view}" is factorized',
            detail="Its states are its rows: it keeps them all.",
        )
    if any(isinstance(each, Queries) for each in bodies):
        raise UnsupportedQuery(
            f'view "{plan.view}" is recomputed', detail="It keeps no states, whatever the budget."
        )
    reads = {
        each.source.lower()
        for block in plan.blocks
        for each in block.program.inputs
        if core.catalog.get(each.source) is not None
    }
    rows = {name: float(core.row_count(name)) for name in reads}
    for name, value in (assumed or {}).items():
        rows[_read(name, reads)] = _rows(value, rows[_read(name, reads)])
    expected = _expected(core, reads, rows, said)
    sizes = {} if assumed else _sizes(core, plan)
    blocks = [(block.name, block.program) for block in plan.blocks]
    return operators_of(blocks, Situation(rows, expected, sizes, costs_of(core)))


def _expected(
    core: Core, reads: set[str], rows: Mapping[str, float], said: Mapping[str, float | str]
) -> dict[str, Expectation]:
    """The given expectations; if there are any, tables without one are assumed complete."""
    known = {_read(name, reads): value for name, value in said.items()}
    now = core.now()
    found = {}
    for name in reads:
        if name in known:
            found[name] = Expectation(_rows(known[name], rows[name]), basis="hint")
        else:
            found[name] = COMPLETE if known else core.expectation(name, now)
    return found


def _read(name: str, reads: set[str]) -> str:
    if name.lower() not in reads:
        raise UnknownName(f'the view does not read "{name}"', hint=nearest(name, reads))
    return name.lower()


def _rows(said: float | str, rows: float) -> float:
    """`5000`, or `1%` of the table."""
    text = str(said).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e18:
        raise InvalidArgument(f"{text!r} is no number of rows", hint="Write 5000, or 1%.")
    return max(1.0, rows * number / 100) if text.endswith("%") else number


def _sizes(core: Core, plan: Plan) -> dict[tuple[str, str], StateSize]:
    """The sizes of the states, by counting the rows of their definitions on the engine."""
    entry = core.catalog.get(plan.view)
    if isinstance(entry, ViewEntry) and entry.budgeted is not None and entry.budgeted.sizes:
        return dict(entry.budgeted.sizes)
    queries = {each.name: each.query for each in plan.blocks[:-1]}
    found = {}
    for block in plan.blocks:
        for name, states in units_of(block.program).items():
            count = sum(_count(core, state, queries) for state in states)
            size = int(count * entry_bytes(states) / max(1, len(states)))
            found[block.name, name] = StateSize(size, float(max(1, count)), exists=True)
    return found


def _count(core: Core, state: State, queries: Mapping[str, object]) -> int:
    if isinstance(state.definition, Values | Replay) or state.derived:
        return 0
    definition = inline_blocks(state.definition, queries)  # type: ignore[arg-type]
    counted = Aggregate(definition, (), (("n", Call("count", (), BIGINT, nullable=False)),))
    return int(core.run(counted)["n"][0].as_py())

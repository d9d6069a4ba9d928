"""The operator tree of a view, with the costs that the selection of states compares.

takes  the programs of a view's blocks, the sizes of tables and states, the expected arrivals
gives  a tree of `Operator`: where a state can be kept, and the cost of doing without it
next   select_states

The tree follows from the states: a state is above those that are computed from fewer of its inputs.
A state that is read by the triggers of its own inputs (or by `flush`) is the table of an aggregate.
One that only the triggers of other inputs read is a hash table of a join. One that no trigger reads
is materialized for readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal as OneOf

from viewmill.policies.arrivals import Expectation
from viewmill.program.program import Program
from viewmill.program.states import State
from viewmill.program.uses import ALL, Uses, is_one_unit, kept_states, units_of, uses_of

_MAX_FAN_OUT = 4.0  # joined rows per changed row: filters keep it small

Kind = OneOf["scan", "materialize", "sort", "aggregate", "join"]


@dataclass(frozen=True)
class Costs:
    """Microseconds per unit of work, measured and rounded; only their ratios matter."""

    call: float = 3000.0  # one query of the engine
    scan: float = 0.04  # a row read by the engine
    hash: float = 0.03  # a row into or against a hash table of the engine
    load: float = 0.6  # a row of the engine's result loaded into a state
    export: float = 0.05  # a row of a state read by the engine
    apply: float = 0.25  # a changed row through one step of a trigger
    delete: float = 1.2  # the cost of a delete relative to an insert


@dataclass(frozen=True)
class Holding:
    """A state that may be kept: its size, and the costs of keeping it and of rebuilding it."""

    name: str
    bytes: int  # after the delta
    exists: bool = True
    needed: bool = True  # whether expected deltas read it
    side: int = 0  # of a join: the child whose rows it holds
    insert_us: float = 0.0  # to apply the delta to it
    load_us: float = 0.0  # to load it, given its rows
    build_us: float = 0.0  # to compute and load it, divided by the deltas that it will serve
    scan_us: float = 0.0  # to read it


@dataclass(frozen=True)
class Operator:
    """One operator: the costs of producing the delta or the full result of its output."""

    kind: Kind
    name: str
    children: tuple[Operator, ...] = ()
    holdings: tuple[Holding, ...] = ()
    rows: float = 0.0
    delta: float = 0.0  # changed rows of the output; 0 if no input changes
    full_us: float = 0.0  # own work for the full result
    delta_us: float = 0.0  # own work for the delta
    # The cost of computing the old result on the engine; None if operators produce it one by one.
    bulk_us: float | None = None

    def walk(self) -> Iterable[Operator]:
        """The operator and everything below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class StateSize:
    """The size of a state now, or when it was last in memory, or as estimated."""

    bytes: int
    rows: float
    exists: bool


@dataclass(frozen=True)
class Situation:
    """Everything besides the programs that the tree depends on; source names in lower case."""

    rows: Mapping[str, float]
    expected: Mapping[str, Expectation]
    sizes: Mapping[tuple[str, str], StateSize]  # by block and unit
    costs: Costs = field(default_factory=Costs)
    builds: Mapping[tuple[str, str], float] = field(default_factory=dict)  # as measured

    @property
    def deltas(self) -> float:
        """The number of refreshes that a state built now will serve."""
        counts = [each.deltas for each in self.expected.values() if not each.is_quiet]
        return max(counts, default=1.0)


def operators_of(blocks: Iterable[tuple[str, Program]], situation: Situation) -> Operator:
    """The tree of a view; the last block is its root."""
    made: dict[str, Operator] = {}
    root: Operator | None = None
    blocks = list(blocks)
    for name, program in blocks:
        shows = name == blocks[-1][0]
        root = made[name] = _Tree(name, program, situation, made, shows=shows).root()
    assert root is not None
    return replace(root, bulk_us=_bulk_us(root) + situation.costs.call)


def holding_name(block: str, unit: str) -> str:
    """The name of a unit in a selection."""
    return f"{block}/{unit}"


@dataclass
class _Branch:
    """A subtree whose parent is not found yet."""

    inputs: frozenset[str]
    operator: Operator
    holdings: list[Holding]


class _Tree:
    """Builds the operators of one block."""

    def __init__(
        self,
        block: str,
        program: Program,
        situation: Situation,
        below: Mapping[str, Operator],
        *,
        shows: bool,
    ) -> None:
        self.block, self.program, self.situation, self.below = block, program, situation, below
        self.uses: Uses = uses_of(program)
        # The view's rows are in these states; without them it is recomputed.
        self.shown = self.uses.shown if shows else frozenset[str]()
        self.costs = situation.costs
        self.delta = {each.name: self._input(each.name).delta for each in program.inputs}
        changed = [name for name, rows in self.delta.items() if rows > 0]
        self.needed = self.uses.needed(changed)

    def root(self) -> Operator:
        items = [
            _Branch(frozenset([each.name]), self._input(each.name), [])
            for each in self.program.inputs
        ] or [_Branch(frozenset(), self._constant(), [])]
        if is_one_unit(self.program):
            child = self._join(items) if len(items) > 1 else items[0].operator
            return self._aggregate(ALL, units_of(self.program)[ALL], child)
        for state in sorted(kept_states(self.program), key=self._height):
            items = self._add(items, state)
        if len(items) == 1 and not items[0].holdings:
            return items[0].operator
        return self._join(items)

    def _height(self, state: State) -> tuple[int, bool]:
        return len(self._inputs(state)), self._is_own(state)

    def _inputs(self, state: State) -> frozenset[str]:
        found = self.uses.sources[state.name]
        if not found or state.derived:  # computed from the other states
            return frozenset(each.name for each in self.program.inputs)
        return found

    def _is_own(self, state: State) -> bool:
        """Whether the triggers of the state's own inputs read it."""
        own = [self.uses.by_input.get(each, frozenset[str]()) for each in self._inputs(state)]
        return state.name in self.uses.flushed.union(*own)

    def _input(self, name: str) -> Operator:
        (found,) = [each for each in self.program.inputs if each.name == name]
        if found.source in self.below:
            return self.below[found.source]
        source = found.source.lower()
        rows = max(1.0, float(self.situation.rows.get(source, 0)))
        expected = self.situation.expected.get(source, Expectation())
        delta = 0.0 if expected.is_quiet else expected.rows
        work = self.costs.scan * (rows + delta)
        return Operator("scan", name, rows=rows, delta=delta, full_us=work, bulk_us=work)

    def _constant(self) -> Operator:
        """The leaf of a block without inputs: the constant rows of its query."""
        work = self.costs.scan
        return Operator("scan", self.block, rows=1.0, full_us=work, bulk_us=work)

    def _add(self, items: list[_Branch], state: State) -> list[_Branch]:
        """Add a state above the branches that it is computed from."""
        inputs = self._inputs(state)
        below = [each for each in items if each.inputs <= inputs]
        for missing in sorted(inputs.difference(*[each.inputs for each in below])):
            below.append(_Branch(frozenset([missing]), self._input(missing), []))
        others = [each for each in items if not each.inputs <= inputs]
        if not self._is_own(state) and len(below) == 1 and below[0].operator.kind != "aggregate":
            below[0].holdings.append(self._holding(state.name, (state,), below[0].operator))
            return items
        child = self._join(below) if len(below) > 1 or below[0].holdings else below[0].operator
        if self._is_own(state):
            made = self._aggregate(state.name, (state,), child)
            return [*others, _Branch(inputs, made, [])]
        return [*others, _Branch(inputs, child, [self._holding(state.name, (state,), child)])]

    def _aggregate(self, unit: str, states: tuple[State, ...], child: Operator) -> Operator:
        # Updating the table is the operator's own work.
        holding = replace(self._holding(unit, states, child), insert_us=0.0)
        rows = self._size(unit, states, child).rows
        work = self.costs.hash * (child.rows + child.delta)
        return Operator(
            "aggregate",
            unit,
            (child,),
            (holding,),
            rows,
            min(child.delta, 2 * rows) if child.delta else 0.0,
            full_us=work,
            delta_us=self.costs.apply * child.delta * self._weight(),
            bulk_us=work + _bulk_us(child),
        )

    def _join(self, items: list[_Branch]) -> Operator:
        children = tuple(each.operator for each in items)
        largest = max(each.rows for each in children)
        delta = sum(
            each.delta * min(_MAX_FAN_OUT, max(1.0, largest / each.rows))
            for each in children
            if each.delta
        )
        holdings = tuple(
            replace(holding, side=i) for i, item in enumerate(items) for holding in item.holdings
        )
        probes = self.costs.apply * delta * max(1, len(items) - 1) * self._weight()
        work = self.costs.hash * sum(each.rows + each.delta for each in children)
        name = " x ".join(each.name for each in children)
        bulk = work + sum(map(_bulk_us, children))
        return Operator("join", name, children, holdings, largest, delta, work, probes, bulk)

    def _holding(self, unit: str, states: tuple[State, ...], child: Operator) -> Holding:
        size, costs = self._size(unit, states, child), self.costs
        growth = 1.0 + child.delta / max(child.rows, 1.0)
        load = costs.call + costs.load * size.rows
        build = load + _bulk_us(child)
        if (measured := self.situation.builds.get((self.block, unit))) is not None:
            load, build = load * measured / build, measured
        return Holding(
            holding_name(self.block, unit),
            int(size.bytes if size.exists else size.bytes * growth),
            size.exists,
            unit in self.needed,
            insert_us=costs.apply * child.delta * self._weight(),
            load_us=inf if unit in self.shown else load,
            build_us=build / self.situation.deltas,
            scan_us=costs.export * size.rows,
        )

    def _size(self, unit: str, states: tuple[State, ...], child: Operator) -> StateSize:
        known = self.situation.sizes.get((self.block, unit))
        if known is not None:
            return known
        return StateSize(int(child.rows * entry_bytes(states)), child.rows, exists=False)

    def _weight(self) -> float:
        """How much dearer deltas with deletes are."""
        shares = [each.deletes for each in self.situation.expected.values() if not each.is_quiet]
        share = max(shares, default=0.0)
        return 1.0 + (self.costs.delete - 1.0) * share


def entry_bytes(states: Iterable[State]) -> int:
    """What an entry takes, with the room that hash tables leave."""
    words = [each.kind.key_words + each.kind.payload_words + 1 for each in states]
    return max(8, int(1.8 * 8 * sum(words)))


def _bulk_us(operator: Operator) -> float:
    assert operator.bulk_us is not None
    return operator.bulk_us

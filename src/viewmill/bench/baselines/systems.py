"""Run a program without a mill around it, as a baseline does.

takes  a view's query over the tables of a mill
gives  systems: apply a delta to a table, say what the result is and how large the states are
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from viewmill.bench.baselines.first_order import first_order_program
from viewmill.bench.baselines.recursive import recursive_program
from viewmill.deltas.arrow import arrow_schema, decode_delta
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.mill.mill import Mill
from viewmill.program.program import Program
from viewmill.program.states import Replay, State
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import Query
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block, block_of
from viewmill.strategies.view_tree.emit import emit_program
from viewmill.strategies.view_tree.plan import plan_tree
from viewmill.strategies.view_tree.result import PRESENT

Rows = list[tuple[Any, ...]]


class System(Protocol):
    """One way to keep the result up to date."""

    def apply(self, table: str, delta: Delta) -> None:
        """Take a batch; the result is up to date afterwards."""

    def rows(self) -> Rows:
        """The result."""

    def state_bytes(self) -> int:
        """What is kept."""


class Kernels:
    """Programs whose results are columns of one row, or one program with any result."""

    def __init__(self, programs: Sequence[Program], mill: Mill) -> None:
        self._dictionary = mill._core.dictionary
        self._programs = programs
        build = pkgutil.resolve_name("viewmill.kernels.build:build")
        self._maintainers = [build(each, self._dictionary) for each in programs]
        self.clear()
        self._inputs: list[tuple[Any, str, str]] = [
            (maintainer, each.source.lower(), each.name)
            for maintainer, program in zip(self._maintainers, programs, strict=True)
            for each in program.inputs
        ]

    def apply(self, table: str, delta: Delta) -> None:
        """Every occurrence of the table, then the new result."""
        for maintainer, source, name in self._inputs:
            if source == table.lower():
                maintainer.apply(name, delta)
        for maintainer in self._maintainers:
            maintainer.flush()
            maintainer.commit()

    def clear(self) -> None:
        """Hold nothing; a view without GROUP BY has a row all the same."""
        for program, maintainer in zip(self._programs, self._maintainers, strict=True):
            for state in program.states:
                maintainer.load(state.name, _first_rows(state))
            maintainer.commit()

    def rows(self) -> Rows:
        """The result."""
        found = [_rows(each.contents(), self._dictionary) for each in self._maintainers]
        if len(found) == 1:
            return found[0]
        return [tuple(value for rows in found for value in rows[0])]

    def state_bytes(self) -> int:
        """All states of all programs."""
        return sum(sum(each.state_bytes().values()) for each in self._maintainers)


class Reevaluate:
    """Keep the tables only, and compute every view of the tree again after each batch."""

    def __init__(self, program: Program, mill: Mill) -> None:
        self._tables: dict[str, list[Delta]] = {}
        self._kernels = Kernels([program], mill)

    def keep(self, table: str, delta: Delta) -> None:
        """Take rows without looking at them."""
        self._tables.setdefault(table, []).append(delta)

    def apply(self, table: str, delta: Delta) -> None:
        """Start from nothing, with all rows."""
        self.keep(table, delta)
        self._kernels.clear()
        for name, deltas in self._tables.items():
            if len(deltas) > 1:
                self._tables[name] = [concat(delta.schema, deltas)]
            self._kernels.apply(name, self._tables[name][0])

    def rows(self) -> Rows:
        """The result."""
        return self._kernels.rows()

    def state_bytes(self) -> int:
        """The tables."""
        return sum(each.nbytes for deltas in self._tables.values() for each in deltas)


def block_in(mill: Mill, query: str) -> Block:
    """The joins and aggregates of a query over a mill's tables."""
    (statement,) = parse(query)
    assert isinstance(statement, Query)
    return block_of(rewrite(lower(statement.query, query, mill._core.catalog)))


def view_tree_program(mill: Mill, query: str, *, indicators: bool = True) -> Program:
    """The program of a view tree, planned for what the tables hold now."""
    rows = {entry.name: entry.table.rows for entry in mill._core.catalog.tables()}
    plan = plan_tree(block_in(mill, query), Statistics(rows), indicators=indicators)
    return emit_program(plan, "view_tree")


def first_order(mill: Mill, query: str) -> System:
    """Only the tables and the result are kept; a change is joined with the tables."""
    return Kernels([first_order_program(block_in(mill, query))], mill)


def recursive_ring(mill: Mill, query: str) -> System:
    """A view for every connected sub-join, all aggregates in one payload."""
    return Kernels([recursive_program(block_in(mill, query), "recursive_ring")], mill)


def recursive(mill: Mill, query: str, *more: str) -> System:
    """A view for every connected sub-join and every aggregate: a query for each of them."""
    return Kernels([recursive_program(block_in(mill, each)) for each in (query, *more)], mill)


def reevaluate(mill: Mill, query: str) -> Reevaluate:
    """The views of a variable order, computed again after each batch."""
    return Reevaluate(view_tree_program(mill, query), mill)


def _first_rows(state: State) -> list[pa.RecordBatch]:
    names = state.kind.schema.names
    if PRESENT not in names or isinstance(state.definition, Replay):
        return []
    row: dict[str, Any] = {name: int(name == PRESENT) for name in names}
    row |= {s.name: [0.0] * s.size for s in state.kind.payload if s.kind == "floats"}
    return [pa.RecordBatch.from_pylist([row], schema=arrow_schema(state.kind.schema))]


def _rows(contents: Delta, dictionary: Dictionary) -> Rows:
    shown = decode_delta(contents, dictionary).to_pylist()
    times = contents.multiplicities()
    return [tuple(row.values()) for row, n in zip(shown, times, strict=True) for _ in range(n)]


BASELINES: Mapping[str, Callable[[Mill, str], System]] = {
    "first_order": first_order,
    "recursive": recursive,
    "recursive_ring": recursive_ring,
    "reevaluate": reevaluate,
}

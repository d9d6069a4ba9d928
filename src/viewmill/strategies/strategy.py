"""The interface of strategies: a candidate with its cost, or the reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Relation
from viewmill.deltas.product import Shape
from viewmill.errors import Span
from viewmill.program.program import ProductTrigger, Program

NO_HINTS = Hints()


@dataclass(frozen=True)
class PartLayout:
    """How a table is cut into time parts. Times are microseconds."""

    length: int
    rows: int | None  # in a part, on average; None while there is none
    retention: int | None


@dataclass(frozen=True)
class Statistics:
    """What is known of the tables when a view is planned."""

    rows: Mapping[str, int] = field(default_factory=dict)
    static: frozenset[str] = frozenset()
    distinct: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by source and column
    parts: Mapping[str, PartLayout] = field(default_factory=dict)  # of tables in time parts
    # An expression failed for a row that the query does not see, or numbers outgrew a plan: only
    # what SQL evaluates may be evaluated, and states must hold all numbers, whatever that costs.
    # Else overflow is taken to be rare, and conditions of correlated subqueries and outer joins are
    # judged where that is cheapest.
    careful: bool = False

    def row_count(self, source: str) -> int:
        """Rows of a table or view now; an empty or unknown one is expected to grow."""
        return max(self.rows.get(source, 0), 1000)


@dataclass(frozen=True)
class Cost:
    """The cost of a refresh: a fixed part and a part per changed row."""

    refresh_us: float
    row_us: float
    state_bytes: int

    def total_us(self, changed_rows: int) -> float:
        """The time of one refresh."""
        return self.refresh_us + self.row_us * changed_rows

    def __str__(self) -> str:
        per_row = f" + {self.row_us:.2g} µs/row" if self.row_us else ""
        return f"{_time(self.refresh_us)}/refresh{per_row}   {_bytes(self.state_bytes)}"


@dataclass(frozen=True)
class Candidate:
    """A strategy's offer for one query."""

    strategy: str
    query: Relation
    cost: Cost
    notes: tuple[str, ...] = ()
    passing: bool = False  # the output feeds another block: its rows need not be kept
    is_linear: bool = False  # a refresh costs more the more rows there are
    recomputes: bool = False  # a refresh runs the query again
    joins_ranges: bool = False  # a changed row is joined with a range of rows
    way: str = ""  # which of its ways the strategy means, if it has several
    # What `match` has written already, for a result whose rows are kept.
    program: Program | None = field(default=None, compare=False, repr=False)

    def product_trigger(self, input_name: str, shape: Shape) -> ProductTrigger | None:
        """The trigger for a product of this shape; None if its rows must be listed."""
        return None


@dataclass(frozen=True)
class Rejection:
    """A strategy's refusal."""

    strategy: str
    reason: str
    span: Span | None = None
    is_lasting: bool = False  # said of the whole query, although its parts may be taken


@dataclass(frozen=True)
class Abilities:
    """What a strategy can do besides maintaining a query over tables."""

    recomputes: bool = False  # it takes every query as it is written, and runs it again
    windows: bool = False  # a window on a table
    deadlines: bool = False  # a clock that is compared with columns
    variable_order: bool = False  # the hint VARIABLE_ORDER
    on_shards: bool = True  # its programs need nothing that only the driver has


class Strategy(Protocol):
    """One way to keep a view up to date."""

    name: str
    abilities: Abilities

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer a candidate, or say which part of the query is in the way."""

    def emit(self, candidate: Candidate) -> Program:
        """The states and triggers that maintain `candidate.query`."""


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.1f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.1f} ms"
    return f"{microseconds:.0f} µs"


def _bytes(size: int) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"

"""A body that answers a window of a stream at each slide, and trees that share. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.relations import Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Type
from viewmill.algebra.windows import SlidingWindow

if TYPE_CHECKING:
    from viewmill.program.program import Program

# The columns that number prepared rows and answers, so that order survives a bag.
ARRIVAL, TIME = "_arrival", "_time"
FRAGMENT = "_fragment"  # which predicates hold, beside the keys


@dataclass(frozen=True)
class WindowAggregate:
    """An aggregate over prepared columns."""

    function: str
    arguments: tuple[int, ...]  # positions among the prepared arguments
    argument: Type | None  # the type of the first one
    type: Type
    operation: OperationCall | None = None  # what a user registered under the function's name
    by_text: bool = False  # whether strings are compared


@dataclass(frozen=True)
class Asked:
    """What a user asks of the way in which windows are put together from partials."""

    technique: str | None = None
    worst: bool = False  # the slowest answer counts, not the usual one
    every: bool = False  # any stretch may be asked for, not only one that slides


@dataclass(frozen=True)
class LaneParts:
    """What rows become for a view, in parts, so that views whose parts differ can share a lane.

    Keys are columns, and arguments can be computed for any row: only `where` may be about some.
    """

    scan: Scan  # under the same alias for all views
    where: tuple[Expression, ...]
    keys: tuple[Column, ...]
    arguments: tuple[Expression, ...]
    kind: str  # views of different kinds are not joined


@dataclass(frozen=True)
class LaneSpec:
    """What rows of a stream become in a lane: keys, arguments, and which predicates hold."""

    keys: tuple[Field, ...]
    prepare: Program | None  # None: `picked` says it all
    picked: tuple[int, ...] = ()
    predicates: int = 0
    takes_all: bool = True  # also rows for which no predicate holds


@dataclass(frozen=True)
class LaneReading:
    """How a view reads a joined lane."""

    keys: tuple[int, ...]  # which of the lane's
    predicate: int | None
    arguments: tuple[int, ...]  # where its own are among the lane's


@dataclass(frozen=True)
class JoinedLane:
    """One lane for views whose parts differ, and how each reads it."""

    spec: LaneSpec
    readings: tuple[LaneReading, ...]


@dataclass(frozen=True)
class LaneUse:
    """Views of one kind of parts, and which of them are followed."""

    parts: LaneParts
    windows: tuple[SlidingWindow, ...]
    followed: tuple[bool, ...]


@dataclass(frozen=True)
class LanePlan:
    """Views that share a lane: which of those that were given."""

    members: tuple[int, ...]
    joined: JoinedLane | None  # None: there is only one
    why: str


@dataclass(frozen=True)
class Windowed:
    """Rows are prepared, gathered in panes, aggregated per window and group, and finished.

    prepare   the source's rows and ARRIVAL -> ARRIVAL, TIME, keys, arguments; WHERE is applied
    finish    ARRIVAL, keys, aggregates -> ARRIVAL, the output's columns; HAVING is applied
    """

    window: SlidingWindow
    keys: tuple[Field, ...]
    aggregates: tuple[WindowAggregate, ...]
    asked: Asked
    lane: str  # equal where rows become the same keys and arguments
    prepare: Program | None  # None: `picked` says it all
    picked: tuple[int, ...]  # the source's columns that are keys and arguments
    finish: Program | None  # None: `shown` says it all
    shown: tuple[int, ...]  # which of keys and aggregates the columns of the output are
    is_safe: bool  # whether what is shown can always be computed
    every: tuple[int, int] | None = None  # GROUP BY window: where start and end are among the keys
    parts: LaneParts | None = None  # None: it shares a lane only with its like


@dataclass(frozen=True)
class TreePlan:
    """Windows that share partials: an edge of one is an edge of all."""

    steps: tuple[tuple[int, int], ...]  # step and offset of the progressions of edges
    technique: str
    members: tuple[int, ...]  # which of the windows that were given
    window: tuple[int, int] | None = None  # range and slide, of a technique for one window
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class WindowsPlan:
    """How the windows of a lane are run, and what that costs."""

    trees: tuple[TreePlan, ...]
    optimizer: str
    cost: float
    why: tuple[str, ...] = ()

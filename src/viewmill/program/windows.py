"""A body that answers a window of a stream at each slide. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewmill.algebra.schema import Field
from viewmill.algebra.types import Type
from viewmill.algebra.windows import SlidingWindow

if TYPE_CHECKING:
    from viewmill.program.program import Program

# The columns that number prepared rows and answers, so that order survives a bag.
ARRIVAL, TIME = "_arrival", "_time"


@dataclass(frozen=True)
class WindowAggregate:
    """An aggregate over prepared columns."""

    function: str
    arguments: tuple[int, ...]  # positions among the prepared columns
    argument: Type | None  # the type of the first one
    type: Type


@dataclass(frozen=True)
class Windowed:
    """Rows are prepared, gathered in panes, aggregated per window and group, and finished.

    prepare   the source's rows and ARRIVAL -> ARRIVAL, TIME, keys, arguments; WHERE is applied
    finish    ARRIVAL, keys, aggregates -> ARRIVAL, the output's columns; HAVING is applied
    """

    window: SlidingWindow
    keys: tuple[Field, ...]
    aggregates: tuple[WindowAggregate, ...]
    technique: str
    prepare: Program
    finish: Program

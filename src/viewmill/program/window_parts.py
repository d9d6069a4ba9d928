"""A sliding window of whole time parts, made of helper parts. Data only.

Each part of the stream becomes a helper part: the aggregates of its rows by group. A window of W
parts is W helper parts put together, or, where all aggregates can be subtracted, the cumulative
helper part at its end less the one W parts before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from viewmill.algebra.schema import Field
from viewmill.algebra.windows import SlidingWindow
from viewmill.program.windows import WindowAggregate

if TYPE_CHECKING:
    from viewmill.program.program import Program

HelperKind = OneOf["cumulative", "by_part"]


@dataclass(frozen=True)
class WindowParts:
    """Rows are prepared and aggregated part by part; part j of the view is the window that ends
    with slide j.

    prepare   the source's rows and ARRIVAL -> ARRIVAL, TIME, keys, arguments; WHERE is applied
    finish    ARRIVAL, keys, aggregates -> ARRIVAL, the output's columns; HAVING is applied
    picked    columns of the source for keys and arguments, where `prepare` does nothing else
    shown     positions among keys and aggregates, where `finish` does nothing but order them
    """

    window: SlidingWindow
    length: int  # of a part, microseconds
    keys: tuple[Field, ...]
    aggregates: tuple[WindowAggregate, ...]
    helpers: HelperKind
    prepare: Program
    finish: Program
    picked: tuple[int, ...] | None = None
    shown: tuple[int, ...] | None = None

    @property
    def width(self) -> int:
        """Parts in a window."""
        return self.window.size // self.length

    @property
    def step(self) -> int:
        """Parts in a slide."""
        return self.window.slide // self.length

    def span(self, slide: int) -> tuple[int, int]:
        """The first and the last part that the window at the end of a slide sees."""
        last = (slide + 1) * self.step - 1
        return last - self.width + 1, last

    def slides_of(self, part: int) -> range:
        """The slides whose windows see a part, from the one that it is in on; windows that are
        shorter than a slide may not."""
        return range(part // self.step, (part + self.width) // self.step)
